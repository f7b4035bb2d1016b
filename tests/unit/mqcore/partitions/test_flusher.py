"""Syncs on threads: grouped, one at a time for each log, never repeated after a fault."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import Offset
from mqcore.log.config import LogConfig
from mqcore.metrics import Cell
from mqcore.partitions.flusher import BACKGROUND_THREADS, Flusher
from mqcore.partitions.partition import Partition
from tests.unit.mqcore.partitions.stage import Stage, placed

DURABLE = {"flush.messages": "1"}


def run(test: Callable[[Flusher, list[Exception], Cell], Awaitable[None]]) -> None:
    async def main() -> None:
        failed: list[Exception] = []
        syncs = Cell()
        flusher = Flusher(failed.append, syncs)
        try:
            await asyncio.wait_for(test(flusher, failed, syncs), 10)
        finally:
            flusher.close()

    asyncio.run(main())


def hosted(flusher: Flusher, disk: MemoryDisk | None = None) -> tuple[Stage, Partition]:
    stage = Stage(DURABLE, disk)
    stage.partition._request_sync = flusher.request
    return stage, stage.partition


async def committed(partition: Partition, end: int) -> Exception | None:
    done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    partition.when_committed(Offset(end), done.set_result)
    return await done


def test_appends_of_one_moment_share_one_sync() -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        stage, partition = hosted(flusher)
        for _ in range(50):
            stage.append()
        assert await committed(partition, 50) is None
        assert syncs.value == 1 and not failed

    run(test)


def test_what_comes_during_a_sync_waits_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        stage, partition = hosted(flusher)
        began, go_on, real = threading.Event(), threading.Event(), partition.log.sync

        def slow() -> int:
            reached = real()
            began.set()
            assert go_on.wait(5)
            return reached

        monkeypatch.setattr(partition.log, "sync", slow)
        stage.append()
        await asyncio.get_running_loop().run_in_executor(None, began.wait, 5)
        _, end = placed(stage.append())
        assert partition.high_watermark == 0
        go_on.set()
        assert await committed(partition, end) is None
        assert syncs.value == 2

    run(test)


def test_a_fault_tells_who_waits_and_the_owner_of_the_folder() -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        disk = MemoryDisk()
        stage, partition = hosted(flusher, disk)
        disk.fail("sync", errno.EIO)
        stage.append()
        assert isinstance(await committed(partition, 1), OSError)
        assert partition.offline is not None and len(failed) == 1
        flusher.request(partition)
        await asyncio.sleep(0)

    run(test)


def test_the_log_of_a_deleted_partition_is_not_touched_again() -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        disk = MemoryDisk()
        stage, partition = hosted(flusher, disk)
        stage.append()
        flusher.request(partition)
        partition.go_offline("deleted")
        disk.remove("orders-0")
        changes = disk.changes
        for _ in range(5):
            await asyncio.sleep(0)
        assert not failed and not syncs.value and disk.changes == changes
        assert partition not in flusher._under_way and partition not in flusher._again

    run(test)


def test_a_folder_is_taken_away_only_when_its_sync_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        stage, partition = hosted(flusher)
        began, ended, real = threading.Event(), threading.Event(), partition.log.sync

        def slow() -> int:
            began.set()
            threading.Event().wait(0.02)
            reached = real()
            ended.set()
            return reached

        monkeypatch.setattr(partition.log, "sync", slow)
        stage.append()
        await asyncio.get_running_loop().run_in_executor(None, began.wait, 5)
        flusher.settle(partition)
        assert ended.is_set()

    run(test)


def test_requests_after_the_end_are_for_nothing() -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        stage, _ = hosted(flusher)
        stage.append()
        flusher.close()
        stage.append()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not failed

    run(test)


def test_an_acknowledgement_does_not_queue_behind_the_periodic_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        go_on = threading.Event()
        periodic = [Stage().partition for _ in range(50)]
        for partition in periodic:
            monkeypatch.setattr(partition.log, "sync", lambda: go_on.wait(10))
            flusher.request(partition)
        stage, durable = hosted(flusher)
        try:
            stage.append()
            assert await committed(durable, 1) is None
            assert syncs.value == 1
        finally:
            go_on.set()
        while syncs.value < 51:
            await flusher.next_end()

    run(test)


def test_a_log_that_becomes_durable_only_leaves_the_queue_of_the_periodic_syncs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        go_on = threading.Event()
        for _ in range(BACKGROUND_THREADS):
            busy = Stage().partition
            monkeypatch.setattr(busy.log, "sync", lambda: go_on.wait(10))
            flusher.request(busy)
        stage = Stage()
        stage.partition._request_sync = flusher.request
        stage.append()
        flusher.request(stage.partition)
        try:
            stage.partition.reconfigure(LogConfig(flush_messages=1))
            _, end = placed(stage.append())
            assert await committed(stage.partition, end) is None
        finally:
            go_on.set()

    run(test)


def test_a_deleted_log_is_not_waited_for_behind_the_syncs_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        go_on = threading.Event()
        others = [Stage().partition for _ in range(BACKGROUND_THREADS)]
        for partition in others:
            monkeypatch.setattr(partition.log, "sync", lambda: go_on.wait(10))
            flusher.request(partition)
        deleted = Stage().partition
        flusher.request(deleted)
        deleted.go_offline("the topic was deleted")
        flusher.settle(deleted)  # would block until the others have ended
        go_on.set()
        while syncs.value < BACKGROUND_THREADS:
            await flusher.next_end()
        assert syncs.value == BACKGROUND_THREADS

    run(test)


def test_a_sync_that_finds_no_descriptor_is_repeated_and_nothing_goes_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqcore.partitions.flusher.RETRY_SECONDS", 0.01)

    async def test(flusher: Flusher, failed: list[Exception], syncs: Cell) -> None:
        disk = MemoryDisk()
        stage, partition = hosted(flusher, disk)
        disk.fail("sync_directory", errno.EMFILE, times=3)
        stage.append()
        assert await committed(partition, 1) is None
        assert partition.offline is None and not failed and syncs.value == 4

    run(test)
