"""Shell: makes logs durable on a few threads, one sync per log at a time, grouping whoever asked meanwhile.

Nothing is retried: a sync that failed may have lost pages for good (the kernel marks them clean), so the fault
goes to the owner, who takes the log directory offline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from mqcore.log.errors import LogFailed
from mqcore.metrics import Cell

if TYPE_CHECKING:
    from mqcore.partitions.partition import Partition

THREADS = 4


class Flusher:
    def __init__(self, failed: Callable[[Exception], None], syncs: Cell) -> None:
        self._failed = failed
        self._syncs = syncs
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sync")
        self._under_way: set[Partition] = set()
        self._again: set[Partition] = set()
        self._closed = False

    def request(self, partition: Partition) -> None:
        """Sync soon; callers of one moment share one sync."""
        if self._closed:
            return
        if partition in self._under_way:
            self._again.add(partition)
            return
        self._under_way.add(partition)
        asyncio.get_running_loop().call_soon(self._start, partition)

    def _start(self, partition: Partition) -> None:
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        sync = loop.run_in_executor(self._threads, partition.log.sync)
        sync.add_done_callback(lambda done: self._ended(partition, done))

    def _ended(self, partition: Partition, done: asyncio.Future[int]) -> None:
        self._syncs.value += 1
        self._under_way.discard(partition)
        wanted_again = partition in self._again
        self._again.discard(partition)
        fault = None if done.cancelled() else done.exception()
        if partition.offline is not None or self._closed:
            return  # deleted, or failed before; or the log is flushed by its closing now
        if isinstance(fault, OSError | LogFailed):
            partition.go_offline(f"sync failed: {fault}")
            self._failed(fault)
            return
        if fault is not None:
            raise fault
        partition.synced()
        if wanted_again:
            self.request(partition)

    def close(self) -> None:
        """Wait for the syncs under way; later requests are for nothing: whoever closes the logs flushes them."""
        self._closed = True
        self._threads.shutdown(wait=True)
