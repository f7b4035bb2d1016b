"""Lab 13: .venv/bin/pytest docs/labs/exercises/test_lab13.py"""

from __future__ import annotations

import pytest

from docs.labs.exercises import lab13_leader_dies as lab

ENDS = {1: 50, 2: 41, 3: 7}


def test_1_the_slowest_in_sync_replica_sets_the_high_watermark() -> None:
    assert [lab.high_watermark(ENDS, in_sync) for in_sync in ({1}, {1, 2}, {1, 2, 3})] == [50, 41, 7]


@pytest.mark.parametrize(
    ("end", "acks", "in_sync", "may"),
    [(50, 1, {1, 2, 3}, True), (50, -1, {1, 2}, False), (41, -1, {1, 2}, True), (51, 1, {1}, False),
     (50, -1, {1}, True)],
)  # fmt: skip
def test_2_acks_say_how_much_an_acknowledgement_is_worth(end: int, acks: int, in_sync: set[int], may: bool) -> None:
    assert lab.is_acknowledged(end, acks, ENDS, in_sync, leader=1) is may


def test_3_only_a_live_in_sync_replica_may_lead() -> None:
    assert lab.elect([1, 2, 3], in_sync={1, 2}, alive={2, 3}) == 2
    assert lab.elect([3, 2, 1], in_sync={1, 2, 3}, alive={1, 2, 3}) == 3
    assert lab.elect([1, 2, 3], in_sync={1}, alive={2, 3}) is None
