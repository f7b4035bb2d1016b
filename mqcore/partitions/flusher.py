"""Shell: makes logs durable on a few threads, one sync per log at a time, grouping all requests of one moment.

Acknowledgements wait for the syncs of some logs (`flush.messages=1`, the metadata log): these go to threads of their
own. All others, the periodic ones above all, are started a few at a time, so that an acknowledgement never queues
behind them.

Nothing is retried after a failed fsync: it may have lost pages for good (the kernel marks them clean), so the fault
goes to the owner, who takes the log directory offline. A lack of descriptors is no such fault: nothing was synced yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from mqcore.log.errors import LogFailed
from mqcore.metrics import Cell

if TYPE_CHECKING:
    from mqcore.partitions.partition import Partition

log = logging.getLogger(__name__)

THREADS = 4
BACKGROUND_THREADS = 2
RETRY_SECONDS = 1.0


class Flusher:
    def __init__(self, failed: Callable[[Exception], None], syncs: Cell) -> None:
        self._failed = failed
        self._syncs = syncs
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sync")
        self._background_threads = ThreadPoolExecutor(BACKGROUND_THREADS, thread_name_prefix="sync-background")
        self._under_way: dict[Partition, Future[int] | None] = {}  # None: it begins in a moment
        self._background: dict[Partition, None] = {}  # in order; not started yet
        self._background_running = 0
        self._again: set[Partition] = set()
        self._ends: asyncio.Event | None = None  # set, and replaced, when a sync has ended
        self._short_of_descriptors = False
        self._closed = False

    def request(self, partition: Partition) -> None:
        """Sync soon; callers of one moment share one sync."""
        if self._closed:
            return
        if partition in self._under_way:
            self._again.add(partition)
        elif partition.acknowledges_durable_only:
            self._background.pop(partition, None)
            self._under_way[partition] = None
            asyncio.get_running_loop().call_soon(self._start, partition, self._threads)
        else:
            self._background[partition] = None
            self._start_background()

    def _start_background(self) -> None:
        while self._background and self._background_running < BACKGROUND_THREADS and not self._closed:
            partition = next(iter(self._background))
            del self._background[partition]
            self._under_way[partition] = None
            self._background_running += 1
            asyncio.get_running_loop().call_soon(self._start, partition, self._background_threads)

    def _start(self, partition: Partition, threads: ThreadPoolExecutor) -> None:
        if self._closed:
            return
        if partition.offline is not None:  # its folder's name may belong to another topic by now
            self._forget(partition, threads)
            return
        self._under_way[partition] = sync = threads.submit(partition.log.sync)
        asyncio.wrap_future(sync).add_done_callback(lambda done: self._ended(partition, threads, done))

    def settle(self, partition: Partition) -> None:
        """Block until no thread works on the log any more: a moment, before its folder is taken away."""
        self._background.pop(partition, None)
        sync = self._under_way.get(partition)
        if sync is not None and not sync.cancel():
            wait((sync,))

    async def next_end(self) -> None:
        """Wait until any sync has ended."""
        if self._ends is None:
            self._ends = asyncio.Event()
        await self._ends.wait()

    def _forget(self, partition: Partition, threads: ThreadPoolExecutor) -> bool:
        """Whether it was requested once more meanwhile."""
        self._under_way.pop(partition, None)
        if threads is self._background_threads:
            self._background_running -= 1
            self._start_background()
        wanted_again = partition in self._again
        self._again.discard(partition)
        return wanted_again

    def _ended(self, partition: Partition, threads: ThreadPoolExecutor, done: asyncio.Future[int]) -> None:
        self._syncs.value += 1
        wanted_again = self._forget(partition, threads)
        if self._ends is not None:
            self._ends.set()
            self._ends = None
        fault = None if done.cancelled() else done.exception()
        if partition.offline is not None or self._closed:
            return  # deleted, or failed before; or the log is flushed by its closing now
        if isinstance(fault, LogFailed):
            partition.go_offline(f"sync failed: {fault}")
            self._failed(fault)
            return
        if isinstance(fault, OSError):
            self._try_later(partition, fault)
            return
        if fault is not None:
            raise fault
        self._short_of_descriptors = False
        partition.synced()
        if wanted_again:
            self.request(partition)

    def _try_later(self, partition: Partition, fault: OSError) -> None:
        """A file or folder could not be opened, so nothing was synced, and nothing failed to be."""
        if not self._short_of_descriptors:
            log.error("syncs wait for free descriptors", extra={"reason": str(fault)})
        self._short_of_descriptors = True
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self._retry, partition)

    def _retry(self, partition: Partition) -> None:
        if partition.offline is None:
            self.request(partition)

    def close(self) -> None:
        """Wait for the syncs under way; later requests are for nothing: whoever closes the logs flushes them."""
        self._closed = True
        self._background.clear()
        self._background_threads.shutdown(wait=True)
        self._threads.shutdown(wait=True)
