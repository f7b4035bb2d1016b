"""What a broker does on the side goes on, whatever one beat of it meets."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Any

import pytest

from mqcore import housekeeping
from mqcore.config import BrokerConfig
from mqcore.identity import TopicPartition
from mqcore.partitions.cleaner import Cleaner
from tests.unit.mqcore.partitions.test_hosted import Folder


class FailingCleaner:
    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.runs = 0

    async def run_once(self) -> int:
        self.runs += 1
        if self.faults:
            raise self.faults.pop(0)
        return 0


def run_until(cleaner: Any, runs: int, **settings: Any) -> None:
    async def main() -> None:
        folder = Folder()
        config = BrokerConfig(log_cleaner_backoff_ms=1, **settings)
        tasks = housekeeping.start(config, folder.hosted, cleaner, folder.clock)
        async with asyncio.timeout(10):
            while cleaner.runs < runs:
                await asyncio.sleep(0.001)
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def test_a_beat_that_fails_is_tried_again_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    cleaner = FailingCleaner(OSError(errno.ENOSPC, "no space"), KeyError("a bug"))
    run_until(cleaner, 4)
    assert [record.getMessage() for record in caplog.records] == ["housekeeping failed"] * 2
    assert caplog.records[0].exc_info is None and caplog.records[1].exc_info is not None  # a bug shows where it is


def test_compaction_can_be_switched_off() -> None:
    async def main() -> int:
        folder = Folder()
        cleaner = Cleaner(folder.disk, folder.hosted, folder.clock, buffer_bytes=1 << 20)
        counts = []
        for enabled in (True, False):
            tasks = housekeeping.start(BrokerConfig(log_cleaner_enable=enabled), folder.hosted, cleaner, folder.clock)
            counts.append(len(tasks))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return counts[0] - counts[1]

    assert asyncio.run(main()) == 1


def test_retention_leaves_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "STEP_S", -1.0)
    folder = Folder()
    for index in range(5):
        folder.open(name=TopicPartition("orders", index))
    turns = 0

    async def main() -> None:
        nonlocal turns
        beat = asyncio.create_task(housekeeping._in_steps(folder.hosted.expire_steps()))
        while not beat.done():
            turns += 1
            await asyncio.sleep(0)

    asyncio.run(main())
    assert turns >= 5
