"""Shell: writes snapshots on a thread, and cuts the log when they are durable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from concurrent.futures import Executor

from mqcore.host import Clock, Threads
from mqcore.log.errors import LogFault
from mqcore.raft.messages import SnapshotId, VoterSet
from mqcore.raft.quorum_log import QuorumLog
from mqcore.raft.snapshots import Snapshot
from mqcore.wire.records import Record

log = logging.getLogger(__name__)


class SnapshotWriter:
    def __init__(self, store: QuorumLog, clock: Clock, threads: Threads) -> None:
        self._store = store
        self._clock = clock
        self._threads = threads
        self._pool: Executor | None = None
        self._is_writing = False

    def write(self, end: int, values: Iterable[bytes]) -> None:
        """`values` are read on the thread. Ignored while another snapshot is being written."""
        if self._is_writing or (self._store.snapshot is not None and end <= self._store.snapshot.end):
            return
        self._is_writing = True
        self._pool = self._pool or self._threads.pool(1, "snapshot")
        snapshot, voters = self._store.snapshot_at(end)
        written = self._pool.submit(self._write, snapshot, voters, values, self._clock.wall_ms())
        asyncio.wrap_future(written).add_done_callback(lambda done: self._on_written(snapshot, done))

    def _write(self, snapshot: SnapshotId, voters: VoterSet, values: Iterable[bytes], now_ms: int) -> None:
        records = [Record(0, now_ms, None, value) for value in values]
        self._store.snapshots.write(Snapshot(snapshot, voters, records), now_ms)

    def _on_written(self, snapshot: SnapshotId, done: asyncio.Future[None]) -> None:
        self._is_writing = False
        try:
            done.result()
            newest = self._store.snapshot
            if newest is None or newest.end < snapshot.end:  # otherwise the leader's was installed meanwhile
                self._store.drop_prefix(snapshot, self._clock.wall_ms())
        except (OSError, LogFault) as fault:  # the disk is full; the next commit tries again
            log.error("metadata snapshot not written", extra={"end": snapshot.end, "reason": str(fault)})
        else:
            log.info("metadata snapshot written", extra={"end": snapshot.end})

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
