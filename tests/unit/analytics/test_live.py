"""The stream's patience: it waits for what is away, and gives up where waiting does not help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from analytics.faults import StatsFault
from analytics.jobs import live
from analytics.jobs.live import FAILURES_IN_A_ROW, Live, Plan


class Clock:
    """In place of the event that says "stop": time passes at once, and is written down."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        return False

    def is_set(self) -> bool:
        return False


def job(lives: Callable[[Live], str | None]) -> tuple[Live, Clock, list[Any]]:
    said: list[Any] = []
    made = Live(cast(Any, None), Plan("", "", "", ""), said.append)
    clock = Clock()
    made._stopping = cast(Any, clock)
    made._one_life = lambda: lives(made)  # type: ignore[method-assign]
    return made, clock, said


def test_it_gives_up_after_failures_in_a_row_and_says_the_last() -> None:
    made, clock, said = job(lambda _: "no database")
    with pytest.raises(StatsFault, match="gave up after 5 failures in a row; the last: no database"):
        made.run()
    assert clock.pauses == [2, 4, 8, 16]
    assert len(said) == FAILURES_IN_A_ROW - 1


def test_a_batch_in_between_lets_it_count_its_failures_anew() -> None:
    lives = 0

    def one(made: Live) -> str | None:
        nonlocal lives
        lives += 1
        if lives % 3 == 0:
            made._told += 1  # a batch went well before it failed
        return "no broker" if lives < 12 else None

    made, clock, _ = job(one)
    made.run()
    assert lives == 12
    assert max(clock.pauses) < 2**FAILURES_IN_A_ROW


def test_of_what_java_says_the_line_that_tells_is_shown() -> None:
    told = "[STREAM_FAILED] Query failed\npsycopg.OperationalError: connection refused\n\tat org.apache.spark.X\n"
    assert live._plain(RuntimeError(told)) == "psycopg.OperationalError: connection refused"
    assert live._plain(RuntimeError("first\nsecond")) == "first"
    assert live._plain(RuntimeError()) == "RuntimeError"
