"""Lab 12: .venv/bin/pytest docs/labs/exercises/test_lab12.py"""

from __future__ import annotations

import pytest

from docs.labs.exercises import lab12_checker as lab


def test_1_errors_that_cancel_out_are_two_differences() -> None:
    holds, orders = {"a": 1, "b": 1, "c": 2}, {"a": 1, "c": 1, "d": 2}
    assert sum(holds.values()) == sum(orders.values())
    assert lab.differences(holds, orders) == {"b": (1, None), "c": (2, 1), "d": (None, 2)}
    assert lab.differences(holds, dict(holds)) == {}


def test_2_a_check_is_judged_by_what_it_does_not_notice() -> None:
    good = {"a": 1, "b": 2}
    corruptions = {
        "one lost": lambda run: {"a": 1},
        "swapped": lambda run: {"a": 2, "b": 1},
        "renamed": lambda run: {"a": 1, "x": 2},
    }
    assert lab.unnoticed(lambda run: sum(run.values()) == 3, good, corruptions) == ["renamed", "swapped"]
    assert lab.unnoticed(lambda run: run == good, good, corruptions) == []
    with pytest.raises(ValueError):
        lab.unnoticed(lambda run: False, good, corruptions)


@pytest.mark.parametrize(
    ("violations", "missing", "checked", "verdict"),
    [(0, [], 9, "PASS"), (1, [], 9, "FAIL"), (1, ["log"], 9, "FAIL"), (0, ["log"], 9, "UNKNOWN"),
     (0, [], 0, "UNKNOWN")],
)  # fmt: skip
def test_3_nothing_checked_is_not_a_pass(violations: int, missing: list[str], checked: int, verdict: str) -> None:
    assert lab.verdict(violations, missing, checked) == verdict
