"""The report waits until all work is done, tolerates short outages, and gives up on long ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from kafka.errors import KafkaTimeoutError

from seckill.report.sources import collect, database, topics

WHERE = collect.Addresses("absent:9092", "postgresql://absent", "redis://absent", Path())


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def waited_s(
    monkeypatch: pytest.MonkeyPatch, unpublished: Callable[[float], int], is_down: Callable[[float], bool]
) -> float:
    """How long the report waits with a patience of 60 s, given the state at each second."""
    clock = Clock()

    def offsets(_: str) -> tuple[list[object], int]:
        return [], unpublished(clock.now_s)

    def cut(_: str) -> dict[object, int]:
        if is_down(clock.now_s):
            raise KafkaTimeoutError("Unable to bootstrap")
        return {}

    monkeypatch.setattr(collect, "time", clock)
    monkeypatch.setattr(database, "read_offsets", offsets)
    monkeypatch.setattr(database, "count_unsettled", lambda _: 0)
    monkeypatch.setattr(topics, "topic_ends", cut)
    collect._await_idle(WHERE, 60.0)
    return clock.now_s


def test_the_wait_ends_after_two_idle_checks_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited_s(monkeypatch, lambda now_s: 0, lambda now_s: False) == 1.0
    assert waited_s(monkeypatch, lambda now_s: int(now_s < 20), lambda now_s: False) == 21.0


def test_a_run_that_is_never_idle_is_waited_for_until_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited_s(monkeypatch, lambda now_s: 1, lambda now_s: False) == 60.0


def test_the_wait_continues_while_the_broker_is_down_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited_s(monkeypatch, lambda now_s: int(now_s < 30), lambda now_s: 5 <= now_s < 15) == 31.0


def test_the_wait_ends_when_the_broker_stays_down(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited_s(monkeypatch, lambda now_s: 0, lambda now_s: True) == collect.UNREACHABLE_SECONDS_MAX
    assert waited_s(monkeypatch, lambda now_s: 1, lambda now_s: now_s >= 10) == pytest.approx(
        9.5 + collect.UNREACHABLE_SECONDS_MAX
    )


def test_the_wait_ends_when_the_database_stays_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: str) -> tuple[list[object], int]:
        raise psycopg.OperationalError("no route")

    clock = Clock()
    monkeypatch.setattr(collect, "time", clock)
    monkeypatch.setattr(database, "read_offsets", away)
    collect._await_idle(WHERE, 60.0)
    assert clock.now_s == collect.UNREACHABLE_SECONDS_MAX
