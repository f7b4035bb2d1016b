"""Shell: syncs logs on threads: one sync per log at a time, shared by all requests that arrived before it.

Logs whose acknowledgements wait for a sync (`flush.messages=1`, the metadata log) have threads of their own. All other
syncs start a few at a time on separate threads, so an acknowledgement never queues behind periodic syncs.

A failed fsync is never retried: the kernel may have marked the lost pages clean, so a second fsync would succeed
without them. The fault goes to `on_failure`, and the broker stops. Running out of file descriptors is different:
nothing was synced yet, so the sync is repeated later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from typing import Protocol

from mqcore.host import Clock, Threads
from mqcore.log.errors import LogFault
from mqcore.log.log import Log
from mqcore.metrics import Cell

log = logging.getLogger(__name__)

THREADS = 4
BACKGROUND_THREADS = 2
RETRY_DELAY_MS = 1000


class SyncedLog(Protocol):
    """The owner of a log: a partition, or the quorum of the metadata log."""

    @property
    def log(self) -> Log: ...

    @property
    def is_offline(self) -> bool: ...

    @property
    def acknowledges_durable_only(self) -> bool: ...

    def go_offline(self, reason: str) -> object: ...

    def on_synced(self) -> None: ...


class Flusher:
    def __init__(self, on_failure: Callable[[Exception], None], syncs: Cell, clock: Clock, threads: Threads) -> None:
        self._on_failure = on_failure
        self._syncs = syncs
        self._clock = clock
        self._urgent_threads = threads.pool(THREADS, "sync")
        self._background_threads = threads.pool(BACKGROUND_THREADS, "sync-background")
        self._running: dict[SyncedLog, Future[int] | None] = {}  # None: scheduled for this turn of the loop
        self._background_queue: dict[SyncedLog, None] = {}  # in order of their requests
        self._background_running = 0
        self._requested_again: set[SyncedLog] = set()
        self._any_sync_ended: asyncio.Event | None = None  # set and discarded when a sync ends
        self._lacks_descriptors = False
        self._is_closed = False

    def request_sync(self, partition: SyncedLog) -> None:
        """Sync soon. All requests until the sync starts share it."""
        if self._is_closed:
            return
        if partition in self._running:
            self._requested_again.add(partition)
        elif partition.acknowledges_durable_only:
            self._background_queue.pop(partition, None)
            self._schedule(partition, self._urgent_threads)
        else:
            self._background_queue[partition] = None
            self._start_background()

    def _start_background(self) -> None:
        while self._background_queue and self._background_running < BACKGROUND_THREADS and not self._is_closed:
            partition = next(iter(self._background_queue))
            del self._background_queue[partition]
            self._background_running += 1
            self._schedule(partition, self._background_threads)

    def _schedule(self, partition: SyncedLog, threads: Executor) -> None:
        """Start after this turn of the loop, so that appends of the same turn share the sync."""
        self._running[partition] = None
        self._clock.call_soon(lambda: self._start(partition, threads))

    def _start(self, partition: SyncedLog, threads: Executor) -> None:
        if self._is_closed:
            return
        if partition.is_offline:  # another topic may own the folder's name by now
            self._finish(partition, threads)
            return
        self._running[partition] = sync = threads.submit(partition.log.sync)
        asyncio.wrap_future(sync).add_done_callback(lambda done: self._on_sync_ended(partition, threads, done))

    def wait_for_sync(self, partition: SyncedLog) -> None:
        """Block until no thread uses the log. The caller is about to rename its folder."""
        self._background_queue.pop(partition, None)
        sync = self._running.get(partition)
        if sync is not None and not sync.cancel():
            wait((sync,))

    async def wait_for_any_sync(self) -> None:
        """Return when the next sync of any log ends."""
        if self._any_sync_ended is None:
            self._any_sync_ended = asyncio.Event()
        await self._any_sync_ended.wait()

    def _finish(self, partition: SyncedLog, threads: Executor) -> bool:
        """Forget a sync. Returns whether another one was requested while it ran."""
        self._running.pop(partition, None)
        if threads is self._background_threads:
            self._background_running -= 1
            self._start_background()
        requested_again = partition in self._requested_again
        self._requested_again.discard(partition)
        return requested_again

    def _on_sync_ended(self, partition: SyncedLog, threads: Executor, done: asyncio.Future[int]) -> None:
        self._syncs.value += 1
        requested_again = self._finish(partition, threads)
        if self._any_sync_ended is not None:
            self._any_sync_ended.set()
            self._any_sync_ended = None
        fault = None if done.cancelled() else done.exception()
        if partition.is_offline or self._is_closed:
            return  # an offline log has no one to report to; a closed flusher leaves the last sync to the log's close
        if isinstance(fault, LogFault):
            partition.go_offline(f"sync failed: {fault}")
            self._on_failure(fault)
            return
        if isinstance(fault, OSError):
            self._retry_later(partition, fault)
            return
        if fault is not None:
            raise fault
        self._lacks_descriptors = False
        partition.on_synced()
        if requested_again:
            self.request_sync(partition)

    def _retry_later(self, partition: SyncedLog, fault: OSError) -> None:
        """A file or folder could not be opened. Nothing was synced, so repeating the sync loses nothing."""
        if not self._lacks_descriptors:
            log.error("syncs wait for free descriptors", extra={"reason": str(fault)})
        self._lacks_descriptors = True
        self._clock.call_later(RETRY_DELAY_MS, lambda: self._retry(partition))

    def _retry(self, partition: SyncedLog) -> None:
        if not partition.is_offline:
            self.request_sync(partition)

    def close(self) -> None:
        """Wait for running syncs and ignore later requests: closing a log flushes it."""
        self._is_closed = True
        self._background_queue.clear()
        self._background_threads.shutdown(wait=True)
        self._urgent_threads.shutdown(wait=True)
