"""The recurring tasks of a broker keep running, whatever fault one run meets."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Any

import pytest

from mqcore import housekeeping
from mqcore.config import BrokerConfig
from mqcore.identity import TopicPartition
from tests.unit.mqcore.partitions.folder import DataFolder


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
        folder = DataFolder()
        config = BrokerConfig(log_cleaner_backoff_ms=1, **settings)
        tasks = housekeeping.start(config, folder.work(cleaner), folder.clock)
        for _ in range(1_000):
            if cleaner.runs >= runs:
                break
            folder.clock.advance(1)
            await asyncio.sleep(0)
        assert cleaner.runs >= runs
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def test_a_task_that_fails_is_logged_with_its_reason_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    cleaner = FailingCleaner(OSError(errno.ENOSPC, "no space"), KeyError("a bug"))
    run_until(cleaner, 4)
    assert [record.getMessage() for record in caplog.records] == ["housekeeping failed"] * 2
    assert caplog.records[0].exc_info is None and caplog.records[1].exc_info is not None  # a bug has a traceback


def test_compaction_is_started_only_when_the_setting_enables_it() -> None:
    async def main() -> int:
        folder = DataFolder()
        work = folder.work(folder.cleaner(buffer_bytes=1 << 20))
        counts = []
        for enabled in (True, False):
            tasks = housekeeping.start(BrokerConfig(log_cleaner_enable=enabled), work, folder.clock)
            counts.append(len(tasks))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return counts[0] - counts[1]

    assert asyncio.run(main()) == 1


def test_retention_lets_other_tasks_run_between_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "STEP_SECONDS_MAX", -1.0)
    folder = DataFolder()
    for index in range(5):
        folder.open(name=TopicPartition("orders", index))
    turns = 0

    async def main() -> None:
        nonlocal turns
        beat = asyncio.create_task(housekeeping.run_in_steps(folder.retention.steps(), folder.clock))
        while not beat.done():
            turns += 1
            folder.clock.advance(0)
            await asyncio.sleep(0)

    asyncio.run(main())
    assert turns >= 5
