"""Shell: removes what has expired: old segments, idle producers, and the folders of deleted topics."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from mqcore.host import Clock
from mqcore.identity import Millis
from mqcore.partitions.faults import contain_fault
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition

log = logging.getLogger(__name__)


class RetentionSweep:
    def __init__(self, partitions: HostedPartitions, clock: Clock, *, producer_expiration_ms: int) -> None:
        self._partitions = partitions
        self._clock = clock
        self._producer_expiration_ms = producer_expiration_ms

    def run(self) -> None:
        """All steps at once."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """Each step handles one log or one folder. Removing a segment syncs its folder, so a step may take a while."""
        now = self._clock.now()
        for partition in self._partitions:
            if not partition.is_offline:
                with contain_fault("retention", partition):
                    _apply_retention(partition, now.wall_ms)
                with contain_fault("expiry of producers", partition):
                    partition.producers.expire_idle(now.monotonic_ms, self._producer_expiration_ms)
                yield
        yield from self._partitions.folders.remove_expired_steps(now.wall_ms)


def _apply_retention(partition: Partition, now_ms: Millis) -> None:
    removed = partition.log.apply_retention(now_ms, limit=partition.high_watermark)
    if removed:
        log.info("segments deleted", extra={"partition": str(partition.name), "segments": len(removed)})
