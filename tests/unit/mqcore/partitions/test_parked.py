"""Who waits for a partition, and that each is told exactly once."""

from __future__ import annotations

import random

import pytest

from mqcore.identity import Offset
from mqcore.partitions.parked import CommitQueue, Watchers


def test_everybody_is_told_once_and_in_the_order_of_the_log() -> None:
    chance = random.Random(5)
    queue, told = CommitQueue(), list[int]()
    ends = [chance.randrange(100) for _ in range(200)]  # duplicates ask for older ends
    for end in ends:
        queue.add(Offset(end), lambda fault, end=end: told.append(end))  # type: ignore[misc]
    queue.release(49)
    assert sorted(told) == sorted(end for end in ends if end <= 49)
    assert told == sorted(told)
    queue.release(1000)
    assert sorted(told) == sorted(ends) and len(queue) == 0
    queue.release(1000)
    assert len(told) == len(ends)


def test_a_fault_goes_to_all_who_still_wait() -> None:
    queue, told = CommitQueue(), list[Exception | None]()
    queue.add(Offset(1), told.append)
    queue.add(Offset(2), told.append)
    queue.release(1)
    queue.fail(OSError("gone"))
    queue.fail(OSError("gone"))
    assert told[0] is None and isinstance(told[1], OSError) and len(told) == 2


def test_who_is_told_may_leave_or_come_back_meanwhile() -> None:
    watchers, told = Watchers(), list[str]()

    def first() -> None:
        told.append("first")
        watchers.remove("first")
        watchers.add("third", lambda: told.append("third"))

    watchers.add("first", first)
    watchers.add("second", lambda: told.append("second"))
    watchers.tell()
    assert told == ["first", "second"]
    watchers.remove("nobody")
    watchers.tell()
    assert told[2:] == ["second", "third"] and len(watchers) == 2


def test_a_callback_that_raises_does_not_keep_the_commit_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def fails(fault: Exception | None) -> None:
        raise RuntimeError("a defect in an API module")

    queue, told = CommitQueue(), list[Exception | None]()
    for end in (1, 3):
        queue.add(Offset(end), fails)
        queue.add(Offset(end), told.append)
    queue.release(1)
    assert told == [None] and len(queue) == 2
    queue.fail(OSError("gone"))
    assert len(told) == 2 and len(queue) == 0
    assert len(caplog.records) == 2 and "a defect in an API module" in caplog.text


def test_a_watcher_that_raises_does_not_keep_the_news_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        raise RuntimeError("a defect in an API module")

    watchers, told = Watchers(), list[str]()
    watchers.add("first", fails)
    watchers.add("second", lambda: told.append("second"))
    watchers.tell()
    assert told == ["second"] and "a defect in an API module" in caplog.text
