"""Shell: compaction of the logs of this broker, one after the other, a few milliseconds at a time.

The file's rule: between two steps the partition may be deleted and its folder's name belong to another topic, so every
step begins with a look at whether it is still there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from uuid import UUID

from mqcore.clock import Clock
from mqcore.disk.port import Disk
from mqcore.identity import TopicPartition
from mqcore.log.checkpoints import CLEANER_OFFSETS, CheckpointFile
from mqcore.log.compaction import Compactor, cleanable
from mqcore.log.errors import CorruptLog, LogFailed
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
        self._file = CheckpointFile(disk, CLEANER_OFFSETS)
        self._before_start = self._file.read()
        self._cleaned: dict[tuple[TopicPartition, UUID], int] = {}

    async def run_once(self) -> int:
        """Compact whatever is due; how many logs that were."""
        count = 0
        for partition in self._partitions:
            count += await self._clean(partition)
        self._write_down()
        return count

    async def _clean(self, partition: Partition) -> bool:
        now_ms, limit = self._clock.wall_ms(), partition.last_stable_offset
        first_dirty = self._cleaned_to(partition)
        if partition.offline is not None or not cleanable(partition.log, first_dirty, limit, now_ms).is_due:
            return False
        compactor = Compactor(
            self._disk, partition.log, first_dirty=first_dirty, limit=limit, now_ms=now_ms, most_keys=self._most_keys
        )
        try:
            finished = await self._step_through(compactor, partition)
        except CorruptLog as fault:
            partition.go_offline(str(fault))
            return False
        except (OSError, LogFailed) as fault:
            if partition.offline is None:
                log.error("compaction failed", extra={"partition": str(partition.name), "reason": str(fault)})
            return False
        if finished and compactor.cleaned_to > first_dirty:
            self._cleaned[partition.name, partition.topic_id] = compactor.cleaned_to
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

    def _cleaned_to(self, partition: Partition) -> int:
        known = self._cleaned.get((partition.name, partition.topic_id))
        if known is None:
            known = self._cleaned[partition.name, partition.topic_id] = self._before_start.pop(partition.name, 0)
        return known

    def _write_down(self) -> None:
        """Where each log's next run begins; deleted partitions are forgotten."""
        hosted = {(partition.name, partition.topic_id) for partition in self._partitions}
        self._cleaned = {key: offset for key, offset in self._cleaned.items() if key in hosted}
        self._file.write({name: offset for (name, _), offset in self._cleaned.items() if offset})
