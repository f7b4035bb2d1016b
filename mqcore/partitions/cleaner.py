"""Shell: compacts the logs of this broker one after another, a few milliseconds at a time.

Own rule: between two steps the partition may be deleted, and another topic may own its folder's name. So every step
begins by checking that the partition still serves.
"""

from __future__ import annotations

import asyncio
import logging

from mqcore.disk.port import Disk
from mqcore.host import Clock, Threads
from mqcore.log.compaction import Compactor, find_cleanable
from mqcore.log.errors import LogFault
from mqcore.partitions.durability import Durability
from mqcore.partitions.faults import contain_fault
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition

log = logging.getLogger(__name__)

STEP_SECONDS_MAX = 0.005
PAUSE_SECONDS = 0.010  # leaves two thirds of the event loop's time to clients
KEY_BYTES = 140  # what one key takes in the map of a compaction run


class Cleaner:
    def __init__(
        self,
        disk: Disk,
        partitions: HostedPartitions,
        durability: Durability,
        clock: Clock,
        threads: Threads,
        *,
        buffer_bytes: int,
        producer_expiration_ms: int,
    ) -> None:
        self._disk = disk
        self._partitions = partitions
        self._durability = durability
        self._clock = clock
        self._sync_thread = threads.pool(1, "compaction-sync")
        self._keys_max = max(1, buffer_bytes // KEY_BYTES)
        self._producer_expiration_ms = producer_expiration_ms

    async def run_once(self) -> int:
        """Compact every log that is due, and return how many were."""
        count = 0
        for partition in self._partitions:
            if not partition.is_offline and partition.log.config.compact:
                with contain_fault("compaction", partition):
                    count += await self._compact(partition)
        self._durability.write_cleaner_checkpoint()
        return count

    async def _compact(self, partition: Partition) -> bool:
        now_ms, limit, first_dirty = self._clock.wall_ms(), partition.last_stable_offset, partition.cleaned_to
        if not find_cleanable(partition.log, first_dirty, limit, now_ms).is_due:
            return False
        compactor = Compactor(
            self._disk,
            partition.log,
            first_dirty=first_dirty,
            limit=limit,
            now_ms=now_ms,
            keys_max=self._keys_max,
            active_producers=partition.producers.active_ids(now_ms, self._producer_expiration_ms),
        )
        try:
            has_finished = await self._run_steps(compactor, partition)
        except (OSError, LogFault):
            if not partition.is_offline:
                raise
            return False  # the partition was deleted during the step, and its files with it
        if has_finished and compactor.cleaned_to > first_dirty:
            partition.cleaned_to = compactor.cleaned_to
            sizes = {"bytes_before": compactor.bytes_before, "bytes_after": compactor.bytes_after}
            log.info("log compacted", extra={"partition": str(partition.name), "to": compactor.cleaned_to, **sizes})
        return has_finished

    async def _run_steps(self, compactor: Compactor, partition: Partition) -> bool:
        """False if the partition stopped serving, or its log was cut, before the last step."""
        began, cuts = self._clock.seconds(), partition.cuts
        for file in compactor.steps():
            if file is not None:
                await asyncio.wrap_future(self._sync_thread.submit(file.sync))
            elif self._clock.seconds() - began > STEP_SECONDS_MAX:
                await self._clock.sleep(PAUSE_SECONDS)
            else:
                continue
            if partition.is_offline or partition.cuts > cuts:
                return False
            began = self._clock.seconds()
        return True

    def close(self) -> None:
        self._sync_thread.shutdown(wait=True)
