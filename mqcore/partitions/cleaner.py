"""Shell: compaction of the logs of this broker, one after the other, a few milliseconds at a time.

The file's rule: between two steps the partition may be deleted and its folder's name belong to another topic, so every
step begins with a look at whether it is still there.
"""

from __future__ import annotations

import asyncio
import logging
import time

from mqcore.clock import Clock
from mqcore.disk.port import Disk
from mqcore.log.compaction import Compactor, cleanable
from mqcore.log.errors import LogFailed
from mqcore.partitions.faults import contain_fault
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition

log = logging.getLogger(__name__)

STEP_S = 0.005
REST_S = 0.010  # two thirds of the loop's time are the clients'
BYTES_PER_KEY = 140


class Cleaner:
    def __init__(self, disk: Disk, partitions: HostedPartitions, clock: Clock, *, buffer_bytes: int) -> None:
        self._disk = disk
        self._partitions = partitions
        self._clock = clock
        self._most_keys = max(1, buffer_bytes // BYTES_PER_KEY)

    async def run_once(self) -> int:
        """Compact whatever is due; how many logs that were."""
        count = 0
        for partition in self._partitions:
            if partition.offline is None and partition.log.config.compact:
                with contain_fault("compaction", partition):
                    count += await self._clean(partition)
        self._partitions.checkpoint_cleaner()
        return count

    async def _clean(self, partition: Partition) -> bool:
        now_ms, limit, first_dirty = self._clock.wall_ms(), partition.last_stable_offset, partition.cleaned_to
        if not cleanable(partition.log, first_dirty, limit, now_ms).is_due:
            return False
        compactor = Compactor(
            self._disk,
            partition.log,
            first_dirty=first_dirty,
            limit=limit,
            now_ms=now_ms,
            most_keys=self._most_keys,
            active_producers=partition.producers.active(now_ms, self._partitions.producer_expiration_ms),
        )
        try:
            finished = await self._step_through(compactor, partition)
        except (OSError, LogFailed):
            if partition.offline is None:
                raise
            return False  # it was deleted meanwhile, and its files with it
        if finished and compactor.cleaned_to > first_dirty:
            partition.cleaned_to = compactor.cleaned_to
            sizes = {"bytes_before": compactor.bytes_before, "bytes_after": compactor.bytes_after}
            log.info("log compacted", extra={"partition": str(partition.name), "to": compactor.cleaned_to, **sizes})
        return finished

    async def _step_through(self, compactor: Compactor, partition: Partition) -> bool:
        """False if the partition went away meanwhile."""
        began = time.monotonic()
        for file in compactor.steps():
            if file is not None:
                await asyncio.get_running_loop().run_in_executor(None, file.sync)
            elif time.monotonic() - began > STEP_S:
                await asyncio.sleep(REST_S)
            else:
                continue
            if partition.offline is not None:
                return False
            began = time.monotonic()
        return True
