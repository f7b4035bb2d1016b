"""Lab 11: .venv/bin/pytest docs/labs/exercises/test_lab11.py"""

from __future__ import annotations

import pytest

from docs.labs.exercises import lab11_backlog as lab


@pytest.mark.parametrize(
    ("now_ms", "available", "decision"),
    [(999, 1, "RESERVED"), (1000, 1, "RESERVED"), (1001, 1, "TOO_LATE"), (1001, 0, "TOO_LATE"), (1000, 0, "SOLD_OUT")],
)
def test_1_units_go_to_buyers_who_still_wait(now_ms: int, available: int, decision: str) -> None:
    assert lab.decide(now_ms, 1000, available) == decision


def test_2_the_wait_follows_from_length_and_pace() -> None:
    assert lab.wait_ms(200, 40, 2000) == 10_000
    assert lab.wait_ms(1, 3, 1000) == 334
    assert lab.wait_ms(5, 0, 2000) is None
    assert lab.wait_ms(0, 0, 2000) == 0


def test_3_a_request_that_would_be_too_late_is_refused_at_the_door() -> None:
    answers = [lab.admit(wait, 30_000) for wait in (None, 0, 30_000, 30_001, 95_000)]
    assert answers == [(202, 0), (202, 0), (202, 0), (503, 1), (503, 65)]
