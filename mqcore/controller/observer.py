"""Shell: this broker's view of the cluster, made from the committed records of `__cluster_metadata`.

The controller decides on an image of its own, which is ahead of the commit. Everything the broker serves or shows comes
from this image. The observer runs in its own turn of the event loop, not inside the append that committed the records,
so the answer to a metadata command waits for `when_reached`: a client that has its answer finds the change in effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from mqcore.controller import records
from mqcore.controller.facts import ControllerFact, MetadataFact
from mqcore.controller.image import ClusterImage
from mqcore.coordination.partition_journal import PartitionJournal, replay
from mqcore.host import Clock, Timer
from mqcore.identity import Offset
from mqcore.partitions.partition import Partition
from mqcore.partitions.waiting_requests import CommitQueue, Committed, OnCommit, StorageFault

log = logging.getLogger(__name__)


class MetadataObserver:
    def __init__(self, partition: Partition, clock: Clock) -> None:
        self.image = ClusterImage()
        self.partition = partition
        self.applied_end = Offset(partition.log.start_offset)
        """Everything below this offset is in the image, and the listeners have carried it out."""
        self._clock = clock
        self._wake_up: Timer | None = None
        self._listeners: list[Callable[[], None]] = []
        self._waiting = CommitQueue()

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change of the image, and before `when_reached` reports it."""
        self._listeners.append(listener)

    def committed_facts(self) -> Iterator[MetadataFact]:
        """All committed facts from the start of the log. A controller that takes over begins with them."""
        for record in replay(self.partition, self.partition.log.start_offset, self.partition.high_watermark):
            if record.value is not None:
                yield records.decode(record.value)

    def start(self) -> None:
        """Apply what is committed now, and from here on whatever is committed later."""
        self._apply_committed()
        self.partition.watchers.add(self, self._schedule)

    def when_reached(self, end: Offset, on_reached: OnCommit) -> None:
        """Call `on_reached` once everything below `end` is committed and in effect on this broker, or never will be."""
        if end <= self.applied_end:
            on_reached(Committed())
        elif self.partition.offline_reason is not None:
            on_reached(StorageFault(self.partition.offline_reason))
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
            self.partition.go_offline(f"the metadata log cannot be read: {fault}")
        else:
            if has_changed:
                self._notify_listeners()
                self._waiting.release(self.applied_end)
        if self.partition.offline_reason is not None:
            self._waiting.fail(StorageFault(self.partition.offline_reason))

    def _apply_committed(self) -> bool:
        """Whether there was anything to apply."""
        before, end = self.applied_end, self.partition.high_watermark
        for record in replay(self.partition, before, end):
            if record.value is not None:
                self.image.apply(records.decode(record.value))
            self.applied_end = Offset(record.offset + 1)
        self.applied_end = Offset(max(self.applied_end, end))  # the quorum's own records are not among them
        return self.applied_end > before

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
        self._journal = PartitionJournal[ControllerFact](observer.partition, records.encode_if_kept, clock, limit_bytes)

    def append(self, facts: Sequence[ControllerFact]) -> Offset:
        return self._journal.append(facts)

    def when_committed(self, end: Offset, on_commit: OnCommit) -> None:
        self._observer.when_reached(end, on_commit)
