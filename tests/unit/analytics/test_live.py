"""The stream retries during outages and gives up when retrying does not help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from analytics.faults import StatsFault, error_summary
from analytics.jobs import live
from analytics.jobs.live import FAILURES_IN_A_ROW, SWITCHED_OFF, StreamJob, StreamPlan


class Clock:
    """Replaces the stop event: waiting returns at once, and the pauses are recorded."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        return False

    def is_set(self) -> bool:
        return False


@pytest.fixture(autouse=True)
def switch(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the switch is off, for each check; on once the list is empty."""
    looks: list[bool] = []
    monkeypatch.setattr(live, "SWITCH_POLL_SECONDS", 0.0)
    monkeypatch.setattr("analytics.sinks.is_switched_off", lambda url: looks.pop(0) if looks else False)
    return looks


def job(queries: Callable[[StreamJob], str | None]) -> tuple[StreamJob, Clock, list[Any]]:
    said: list[Any] = []
    made = StreamJob(cast(Any, None), StreamPlan("", "", "", ""), said.append)
    clock = Clock()
    made._stopping = cast(Any, clock)
    made._run_query = lambda: queries(made)  # type: ignore[method-assign]
    return made, clock, said


def test_the_stream_gives_up_after_five_failures_in_a_row_and_names_the_last() -> None:
    made, clock, said = job(lambda _: "no database")
    with pytest.raises(StatsFault, match="gave up after 5 failures in a row; the last: no database"):
        made.run()
    assert clock.pauses == [2, 4, 8, 16]
    assert len(said) == FAILURES_IN_A_ROW - 1


def test_a_successful_batch_resets_the_failure_count() -> None:
    queries = 0

    def one(made: StreamJob) -> str | None:
        nonlocal queries
        queries += 1
        if queries % 3 == 0:
            made._last_reported += 1  # a batch succeeded before the failure
        return "no broker" if queries < 12 else None

    made, clock, _ = job(one)
    made.run()
    assert queries == 12
    assert max(clock.pauses) < 2**FAILURES_IN_A_ROW


def test_the_error_summary_picks_the_line_that_explains_a_java_traceback() -> None:
    told = "[STREAM_FAILED] Query failed\npsycopg.OperationalError: connection refused\n\tat org.apache.spark.X\n"
    assert error_summary(RuntimeError(told)) == "psycopg.OperationalError: connection refused"
    of_a_task = "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
    of_a_task += "psycopg.errors.DiskFull: no space\nDETAIL: on the device\n\tat org.apache.spark.X: Y\n"
    assert error_summary(RuntimeError(of_a_task)) == "psycopg.errors.DiskFull: no space"
    assert (
        error_summary(RuntimeError("Caused by: java.io.IOException: gone\nCaused by: a.B:\n"))
        == "java.io.IOException: gone"
    )
    assert error_summary(RuntimeError("first\nsecond")) == "first"
    assert error_summary(RuntimeError()) == "RuntimeError"


def test_the_stream_waits_while_switched_off_and_continues_when_switched_on(switch: list[bool]) -> None:
    switch[:] = [False, True, True, True, False]
    queries: list[int] = []

    def one(made: StreamJob) -> str | None:
        queries.append(len(switch))
        return SWITCHED_OFF if len(queries) == 1 else None

    made, clock, said = job(one)
    made.run()
    assert queries == [4, 0], "one query before, none while it is off, one afterwards"
    assert len(clock.pauses) == 3
    assert said == ["switched off, waiting", "switched on, catching up"]


def test_the_switch_keeps_its_state_while_the_database_is_down(
    switch: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _, said = job(lambda _: None)
    switch[:] = [True]
    assert made._is_switched_off()
    monkeypatch.setattr("analytics.sinks.is_switched_off", lambda url: 1 / 0)
    assert made._is_switched_off()
    monkeypatch.setattr("analytics.sinks.is_switched_off", lambda url: False)
    assert not made._is_switched_off()
    assert said == ["switched off, waiting", "switched on, catching up"]


def test_a_job_with_once_ignores_the_switch(switch: list[bool]) -> None:
    switch[:] = [True]
    made = StreamJob(cast(Any, None), StreamPlan("", "", "", "", once=True), lambda _: None)
    assert not made._is_switched_off()
