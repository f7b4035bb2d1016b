"""Shell: a broker's view of the cluster: reads committed records of `__cluster_metadata` and applies them in order.

The controller's own image runs ahead of the commit; what the broker serves and shows rests on this one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from mqcore.controller.facts import MetadataFact
from mqcore.controller.image import ClusterImage
from mqcore.controller.records import decode
from mqcore.coordination.partition_journal import replay
from mqcore.partitions.partition import Partition

log = logging.getLogger(__name__)

Listener = Callable[[MetadataFact], None]


class MetadataObserver:
    def __init__(self, partition: Partition) -> None:
        self.image = ClusterImage()
        self.applied = partition.log.start_offset
        self.partition = partition
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """`listener` is told of each fact, once the image has it."""
        self._listeners.append(listener)

    def replayed(self) -> Iterator[MetadataFact]:
        """All committed facts again, from the start: what a controller that takes over begins with."""
        for record in replay(self.partition, self.partition.log.start_offset, self.partition.high_watermark):
            if record.value is not None:
                yield decode(record.value)

    def follow(self) -> None:
        """Catch up now, and whenever more is committed."""
        self.catch_up()
        self.partition.watchers.add(self, self._more_committed)

    def _more_committed(self) -> None:
        """A metadata log that cannot be read any more goes offline, so that every waiting command gets an error."""
        try:
            self.catch_up()
        except Exception as fault:
            log.exception("the metadata log cannot be read, it is offline until a restart")
            self.partition.go_offline(f"the metadata log cannot be read: {fault}")

    def catch_up(self) -> None:
        for record in replay(self.partition, self.applied, self.partition.high_watermark):
            self.applied = record.offset + 1
            if record.value is not None:
                fact = decode(record.value)
                self.image.apply(fact)
                for listener in self._listeners:
                    try:
                        listener(fact)
                    except Exception:  # the fact holds for everybody else, and later facts still have to be applied
                        log.exception("a committed metadata change could not be carried out", extra={"fact": fact})
