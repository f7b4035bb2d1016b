"""Syncs on threads: shared by requests, one at a time per log, never repeated after a fault."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable, Collection
from concurrent import futures
from concurrent.futures import Future

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.host import SystemClock, SystemThreads
from mqcore.identity import Offset
from mqcore.log.topic_config import LogConfig
from mqcore.metrics import Cell
from mqcore.partitions.flusher import BACKGROUND_THREADS, Flusher
from mqcore.partitions.partition import Partition
from mqcore.partitions.waiting_requests import COMMITTED, CommitOutcome, StorageFault
from tests.unit.mqcore.partitions.helpers import DURABLE, PartitionHarness, offsets_of


def run(test: Callable[[Flusher, list[Exception], Cell], Awaitable[None]]) -> None:
    async def main() -> None:
        failed: list[Exception] = []
        syncs = Cell()
        clock = SystemClock(asyncio.get_running_loop())
        flusher = Flusher(failed.append, syncs, clock, SystemThreads())
        try:
            await asyncio.wait_for(test(flusher, failed, syncs), 10)
        finally:
            flusher.close()

    asyncio.run(main())


def hosted(flusher: Flusher, disk: MemoryDisk | None = None) -> tuple[PartitionHarness, Partition]:
    harness = PartitionHarness(DURABLE, disk)
    harness.partition._request_sync = flusher.request_sync
    return harness, harness.partition


async def one_turn() -> None:
    """Let callbacks that are due run."""
    await asyncio.sleep(0)


async def committed(partition: Partition, end: int) -> CommitOutcome:
    done: asyncio.Future[CommitOutcome] = asyncio.get_running_loop().create_future()
    partition.when_committed(Offset(end), done.set_result)
    return await done


def test_appends_of_one_turn_share_one_sync() -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        harness, partition = hosted(flusher)
        for _ in range(50):
            harness.append()
        assert await committed(partition, 50) is COMMITTED
        assert syncs.value == 1 and not failed

    run(test)


def test_an_append_during_a_sync_waits_for_the_next_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        harness, partition = hosted(flusher)
        began, go_on, real = threading.Event(), threading.Event(), partition.log.sync

        def slow() -> int:
            reached = real()
            began.set()
            assert go_on.wait(5)
            return reached

        monkeypatch.setattr(partition.log, "sync", slow)
        harness.append()
        await asyncio.get_running_loop().run_in_executor(None, began.wait, 5)
        _, end = offsets_of(harness.append())
        assert partition.high_watermark == 0
        go_on.set()
        assert await committed(partition, end) is COMMITTED
        assert syncs.value == 2

    run(test)


def test_a_failed_sync_fails_waiting_requests_and_is_reported_once() -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        disk = MemoryDisk()
        harness, partition = hosted(flusher, disk)
        disk.fail("sync", errno.EIO)
        harness.append()
        assert isinstance(await committed(partition, 1), StorageFault)
        assert partition.is_offline and len(failed) == 1
        changes = disk.changes
        flusher.request_sync(partition)
        await one_turn()
        await one_turn()
        assert (len(failed), syncs.value, disk.changes) == (1, 1, changes)

    run(test)


def test_the_log_of_a_deleted_partition_is_not_synced() -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        disk = MemoryDisk()
        harness, partition = hosted(flusher, disk)
        harness.append()
        flusher.request_sync(partition)
        partition.go_offline("deleted")
        disk.remove("orders-0")
        changes = disk.changes
        for _ in range(5):
            await one_turn()
        assert not failed and not syncs.value and disk.changes == changes
        assert partition not in flusher._running and partition not in flusher._requested_again

    run(test)


def test_waiting_for_a_sync_blocks_until_its_thread_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        harness, partition = hosted(flusher)
        began, go_on, real = threading.Event(), threading.Event(), partition.log.sync

        def slow() -> int:
            began.set()
            assert go_on.wait(5)
            return real()

        monkeypatch.setattr(partition.log, "sync", slow)
        harness.append()
        await asyncio.get_running_loop().run_in_executor(None, began.wait, 5)

        def wait(syncs: Collection[Future[int]]) -> None:
            go_on.set()  # only now may the sync end
            futures.wait(syncs)

        monkeypatch.setattr("mqcore.partitions.flusher.wait", wait)
        flusher.wait_for_sync(partition)
        assert partition.log.flushed_offset == 1

    run(test)


def test_requests_after_close_are_ignored() -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        disk = MemoryDisk()
        harness, partition = hosted(flusher, disk)
        flusher.close()
        harness.append()  # requests a sync, because the topic has flush.messages=1
        changes = disk.changes
        await one_turn()
        await one_turn()
        assert (disk.changes, syncs.value, failed) == (changes, 0, [])
        assert partition.log.flushed_offset == 0

    run(test)


def test_an_acknowledgement_does_not_queue_behind_the_periodic_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        go_on = threading.Event()
        periodic = [PartitionHarness().partition for _ in range(50)]
        for partition in periodic:
            monkeypatch.setattr(partition.log, "sync", lambda: go_on.wait(10))
            flusher.request_sync(partition)
        harness, durable = hosted(flusher)
        try:
            harness.append()
            assert await committed(durable, 1) is COMMITTED
            assert syncs.value == 1
        finally:
            go_on.set()
        while syncs.value < 51:
            await flusher.wait_for_any_sync()

    run(test)


def test_a_log_that_must_be_durable_leaves_the_queue_of_periodic_syncs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        go_on = threading.Event()
        for _ in range(BACKGROUND_THREADS):
            busy = PartitionHarness().partition
            monkeypatch.setattr(busy.log, "sync", lambda: go_on.wait(10))
            flusher.request_sync(busy)
        harness = PartitionHarness()
        harness.partition._request_sync = flusher.request_sync
        harness.append()
        flusher.request_sync(harness.partition)
        try:
            harness.partition.reconfigure(LogConfig(flush_messages=1))
            _, end = offsets_of(harness.append())
            assert await committed(harness.partition, end) is COMMITTED
        finally:
            go_on.set()

    run(test)


def test_waiting_for_a_deleted_log_does_not_wait_for_other_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        go_on = threading.Event()
        others = [PartitionHarness().partition for _ in range(BACKGROUND_THREADS)]
        for partition in others:
            monkeypatch.setattr(partition.log, "sync", lambda: go_on.wait(10))
            flusher.request_sync(partition)
        deleted = PartitionHarness().partition
        flusher.request_sync(deleted)
        deleted.go_offline("the topic was deleted")
        flusher.wait_for_sync(deleted)  # must not block until the other syncs have ended
        go_on.set()
        while syncs.value < BACKGROUND_THREADS:
            await flusher.wait_for_any_sync()
        assert syncs.value == BACKGROUND_THREADS

    run(test)


def test_a_sync_without_a_free_descriptor_is_repeated_and_nothing_goes_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqcore.partitions.flusher.RETRY_DELAY_MS", 10)

    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        disk = MemoryDisk()
        harness, partition = hosted(flusher, disk)
        disk.fail("sync_directory", errno.EMFILE, times=3)
        harness.append()
        assert await committed(partition, 1) is COMMITTED
        assert not partition.is_offline and not failed and syncs.value == 4

    run(test)
