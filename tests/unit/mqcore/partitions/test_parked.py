"""Who waits for a partition, and that each is told exactly once."""

from __future__ import annotations

import random

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
