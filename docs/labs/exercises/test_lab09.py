"""Lab 9: .venv/bin/pytest docs/labs/exercises/test_lab09.py"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from docs.labs.exercises import lab09_poison as lab
from seckill.messaging.records import PermanentFailure, TransientFailure


@pytest.mark.parametrize("bad", [set(), {0}, {999}, {400}, {3, 4, 700}])
def test_1_the_bad_records_are_found_with_few_calls_and_the_others_stay_in_order(bad: set[int]) -> None:
    handled, buried, calls = [], [], 0

    def handle(batch: Sequence[int]) -> None:
        nonlocal calls
        calls += 1
        assert batch, "an empty batch costs a transaction"
        if bad & set(batch):
            raise ValueError("poison")
        handled.extend(batch)

    lab.process(range(1000), handle, buried.append)
    assert handled == [number for number in range(1000) if number not in bad]
    assert buried == sorted(bad)
    assert calls <= 1 + 22 * len(bad)


@pytest.mark.parametrize(
    ("fault", "dead_after"),
    [(PermanentFailure("x"), 1), (ValueError("x"), 3), (TransientFailure("x"), None), (ConnectionError("x"), None)],
)
def test_2_a_record_is_given_up_when_no_retry_can_help(fault: Exception, dead_after: int | None) -> None:
    given_up = [attempts for attempts in range(1, 100) if lab.is_dead(fault, attempts)]
    assert given_up == ([] if dead_after is None else list(range(dead_after, 100)))


def test_3_a_bad_deployment_stops_the_consumer_and_one_bad_record_does_not() -> None:
    assert not lab.is_circuit_open([False], 10, 0.2)
    assert not lab.is_circuit_open([True] * 98 + [False] * 2, 10, 0.2)
    assert not lab.is_circuit_open([True] * 8 + [False] * 2, 10, 0.2)
    assert lab.is_circuit_open([True] * 7 + [False] * 3, 10, 0.2)
