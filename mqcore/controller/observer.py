"""Shell: this broker's view of the cluster, made from the committed records of `__cluster_metadata`.

The controller decides on an image of its own, which is ahead of the commit. Everything the broker serves or shows comes
from this image. The observer runs in its own turn of the event loop, not inside the append that committed the records,
so the answer to a metadata command waits for `when_reached`: a client that has its answer finds the change in effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from mqcore.controller import records
from mqcore.controller.facts import ControllerFact
from mqcore.controller.image import ClusterImage
from mqcore.coordination.partition_journal import PartitionJournal, replay
from mqcore.host import Clock, Timer
from mqcore.identity import Offset
from mqcore.partitions.waiting_requests import CommitQueue, Committed, OnCommit, StorageFault
from mqcore.raft.quorum import Quorum

log = logging.getLogger(__name__)


class MetadataObserver:
    def __init__(self, quorum: Quorum, clock: Clock) -> None:
        self.image = ClusterImage()
        self.quorum = quorum
        self.applied_end = Offset(0)
        """Everything below this offset is in the image, and the listeners have carried it out."""
        self._clock = clock
        self._wake_up: Timer | None = None
        self._listeners: list[Callable[[], None]] = []
        self._waiting = CommitQueue()

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change of the image, and before `when_reached` reports it."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Apply what is committed now, and from here on whatever is committed later. Raises what reading raises."""
        self._apply_committed()
        self.quorum.watchers.add(self, self._schedule)

    def when_reached(self, end: Offset, on_reached: OnCommit) -> None:
        """Call `on_reached` once everything below `end` is committed and in effect on this broker, or never will be."""
        if end <= self.applied_end:
            on_reached(Committed())
        elif self.quorum.offline_reason is not None:
            on_reached(StorageFault(self.quorum.offline_reason))
        else:
            self._waiting.add(end, on_reached)

    def _schedule(self) -> None:
        if self._wake_up is None:
            self._wake_up = self._clock.call_soon(self._catch_up)

    def _catch_up(self) -> None:
        """A metadata log that cannot be read goes offline, so that every waiting command gets an error."""
        self._wake_up = None
        try:
            has_changed = self._apply_committed()
        except Exception as fault:
            log.exception("the metadata log cannot be read; it is offline until the broker restarts")
            self.quorum.go_offline(f"the metadata log cannot be read: {fault}")
        else:
            if has_changed:
                self._notify_listeners()
                self._waiting.release(self.applied_end)
        if self.quorum.offline_reason is not None:
            self._waiting.fail(StorageFault(self.quorum.offline_reason))

    def _apply_committed(self) -> bool:
        """Whether there was anything to apply."""
        before, end = self.applied_end, self.quorum.high_watermark
        snapshot = self.quorum.snapshot
        if snapshot is not None and snapshot.end > before:
            self._load_snapshot(Offset(snapshot.end))
        for record in replay(self.quorum, self.applied_end, end):
            if record.value is not None:
                self.image.apply(records.decode(record.value))
            self.applied_end = Offset(record.offset + 1)
        self.applied_end = end  # the quorum's own records at the end are for no image
        return end > before

    def _load_snapshot(self, end: Offset) -> None:
        """At the start, or because the leader had no older records any more. Others hold a reference to the image."""
        image = ClusterImage()
        for value in self.quorum.read_snapshot():
            image.apply(records.decode(value))
        self.image.become(image)
        self.applied_end = end

    def _notify_listeners(self) -> None:
        for listener in self._listeners:
            try:
                listener()
            except Exception:  # the change is committed; the other listeners and the waiting commands must go on
                log.exception("a committed metadata change could not be carried out")


class MetadataJournal:
    """The controller's journal. Facts count as committed when this broker's image has them, too."""

    def __init__(self, observer: MetadataObserver, clock: Clock, limit_bytes: int) -> None:
        self._observer = observer
        self._journal = PartitionJournal[ControllerFact](observer.quorum, records.encode_if_kept, clock, limit_bytes)

    def append(self, facts: Sequence[ControllerFact]) -> Offset:
        return self._journal.append(facts)

    def when_committed(self, end: Offset, on_commit: OnCommit) -> None:
        self._observer.when_reached(end, on_commit)
