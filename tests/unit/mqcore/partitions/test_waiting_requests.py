"""Requests that wait for a partition are notified exactly once."""

from __future__ import annotations

import random

import pytest

from mqcore.identity import Offset
from mqcore.partitions.waiting_requests import (
    COMMITTED,
    Acknowledgements,
    CommitOutcome,
    CommitQueue,
    NotLeader,
    StorageFault,
    Watchers,
)

GONE = StorageFault("the disk is gone")


def test_commits_are_released_once_and_in_the_order_of_the_log() -> None:
    chance = random.Random(5)
    queue, released = CommitQueue(), list[int]()
    ends = [chance.randrange(100) for _ in range(200)]  # duplicates wait for earlier ends
    for end in ends:
        queue.add(Offset(end), lambda outcome, end=end: released.append(end))  # type: ignore[misc]
    queue.release(49)
    assert sorted(released) == sorted(end for end in ends if end <= 49)
    assert released == sorted(released)
    queue.release(1000)
    assert sorted(released) == sorted(ends) and len(queue) == 0
    queue.release(1000)
    assert len(released) == len(ends)


def test_a_fault_fails_all_requests_that_still_wait() -> None:
    queue, outcomes = CommitQueue(), list[CommitOutcome]()
    queue.add(Offset(1), outcomes.append)
    queue.add(Offset(2), outcomes.append)
    queue.release(1)
    queue.fail(GONE)
    queue.fail(GONE)
    assert outcomes == [COMMITTED, GONE]


def test_a_watcher_may_add_and_remove_watchers() -> None:
    watchers, called = Watchers(), list[str]()

    def first() -> None:
        called.append("first")
        watchers.remove("first")
        watchers.add("third", lambda: called.append("third"))

    watchers.add("first", first)
    watchers.add("second", lambda: called.append("second"))
    watchers.notify()
    assert called == ["first", "second"]
    watchers.remove("unknown")
    watchers.notify()
    assert called[2:] == ["second", "third"] and len(watchers) == 2


def test_a_callback_that_raises_does_not_block_the_other_commits(caplog: pytest.LogCaptureFixture) -> None:
    def fails(outcome: CommitOutcome) -> None:
        raise RuntimeError("a defect in an API module")

    queue, outcomes = CommitQueue(), list[CommitOutcome]()
    for end in (1, 3):
        queue.add(Offset(end), fails)
        queue.add(Offset(end), outcomes.append)
    queue.release(1)
    assert outcomes == [COMMITTED] and len(queue) == 2
    queue.fail(GONE)
    assert len(outcomes) == 2 and len(queue) == 0
    assert len(caplog.records) == 2 and "a defect in an API module" in caplog.text


def test_a_watcher_that_raises_does_not_block_the_other_watchers(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        raise RuntimeError("a defect in an API module")

    watchers, called = Watchers(), list[str]()
    watchers.add("first", fails)
    watchers.add("second", lambda: called.append("second"))
    watchers.notify()
    assert called == ["second"] and "a defect in an API module" in caplog.text


def test_acks_1_waits_for_this_replica_and_acks_all_for_the_high_watermark() -> None:
    waiting, local, everywhere = Acknowledgements(), list[CommitOutcome](), list[CommitOutcome]()
    waiting.add(1, Offset(5), local.append)
    waiting.add(-1, Offset(5), everywhere.append)
    waiting.release(local_end=4, high_watermark=4)
    assert not local and not everywhere
    waiting.release(local_end=5, high_watermark=4)
    assert local == [COMMITTED] and not everywhere
    waiting.release(local_end=5, high_watermark=5)
    assert everywhere == [COMMITTED]


def test_when_the_leader_epoch_ends_all_waiting_requests_fail_once() -> None:
    waiting, outcomes = Acknowledgements(), list[CommitOutcome]()
    for acks in (1, -1):
        waiting.add(acks, Offset(5), outcomes.append)
    waiting.fail(NotLeader("elected elsewhere"))
    waiting.release(local_end=9, high_watermark=9)  # by now other records have these offsets
    assert outcomes == [NotLeader("elected elsewhere")] * 2 and len(waiting) == 0
