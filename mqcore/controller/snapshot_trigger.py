"""Shell: writes a snapshot of the cluster's metadata when the log since the last one has grown too long."""

from __future__ import annotations

from mqcore.controller import records
from mqcore.controller.observer import MetadataObserver


class SnapshotTrigger:
    """A listener of the observer. The facts are collected on the event loop and encoded on a thread."""

    def __init__(self, observer: MetadataObserver, bytes_max: int) -> None:
        self._observer = observer
        self._bytes_max = bytes_max

    def check(self) -> None:
        quorum = self._observer.quorum
        if quorum.bytes_since_snapshot > self._bytes_max:
            facts = list(self._observer.image.facts())
            quorum.write_snapshot(self._observer.applied_end, (records.encode(fact)[1] for fact in facts))
