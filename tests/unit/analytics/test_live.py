"""The stream's patience: it waits for what is away, and gives up where waiting does not help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from analytics.faults import StatsFault, plain
from analytics.jobs import live
from analytics.jobs.live import FAILURES_IN_A_ROW, HELD, Live, Plan


class Clock:
    """In place of the event that says "stop": time passes at once, and is written down."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        return False

    def is_set(self) -> bool:
        return False


@pytest.fixture(autouse=True)
def switch(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What the operator's switch says, look by look, and on for ever after: whether it is off."""
    looks: list[bool] = []
    monkeypatch.setattr(live, "SWITCH_S", 0.0)
    monkeypatch.setattr("analytics.sinks.is_switched_off", lambda url: looks.pop(0) if looks else False)
    return looks


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
    assert plain(RuntimeError(told)) == "psycopg.OperationalError: connection refused"
    of_a_task = "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
    of_a_task += "psycopg.errors.DiskFull: no space\nDETAIL: on the device\n\tat org.apache.spark.X: Y\n"
    assert plain(RuntimeError(of_a_task)) == "psycopg.errors.DiskFull: no space"
    assert plain(RuntimeError("Caused by: java.io.IOException: gone\nCaused by: a.B:\n")) == "java.io.IOException: gone"
    assert plain(RuntimeError("first\nsecond")) == "first"
    assert plain(RuntimeError()) == "RuntimeError"


def test_switched_off_it_holds_still_and_goes_on_when_it_is_on_again(switch: list[bool]) -> None:
    switch[:] = [False, True, True, True, False]
    lives: list[int] = []

    def one(made: Live) -> str | None:
        lives.append(len(switch))
        return HELD if len(lives) == 1 else None

    made, clock, said = job(one)
    made.run()
    assert lives == [4, 0], "one life before, none while it is off, one afterwards"
    assert len(clock.pauses) == 3
    assert said == ["switched off: holding still", "switched on: catching up"]


def test_while_nobody_can_say_it_stays_as_it_was(switch: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    made, _, said = job(lambda _: None)
    switch[:] = [True]
    assert made._is_switched_off()
    monkeypatch.setattr("analytics.sinks.is_switched_off", lambda url: 1 / 0)
    assert made._is_switched_off()
    monkeypatch.setattr("analytics.sinks.is_switched_off", lambda url: False)
    assert not made._is_switched_off()
    assert said == ["switched off: holding still", "switched on: catching up"]


def test_what_is_to_be_done_once_is_done_whatever_the_switch_says(switch: list[bool]) -> None:
    switch[:] = [True]
    made = Live(cast(Any, None), Plan("", "", "", "", once=True), lambda _: None)
    assert not made._is_switched_off()
