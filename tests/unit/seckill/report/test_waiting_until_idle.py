"""Before the books are read all has to be worked off; who is away for a moment is waited for, and not for ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from kafka.errors import KafkaTimeoutError

from seckill.consistency.sources import collect, database, topics

WHERE = collect.Addresses("nobody:9092", "postgresql://nobody", "redis://nobody", Path())


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def waited_s(
    monkeypatch: pytest.MonkeyPatch, unpublished: Callable[[float], int], is_away: Callable[[float], bool]
) -> float:
    """How long it waits, with a patience of a minute, for what is so at each second."""
    clock = Clock()

    def offsets(_: str) -> tuple[list[object], int]:
        return [], unpublished(clock.now_s)

    def cut(_: str) -> dict[object, int]:
        if is_away(clock.now_s):
            raise KafkaTimeoutError("Unable to bootstrap")
        return {}

    monkeypatch.setattr(collect, "time", clock)
    monkeypatch.setattr(database, "offsets", offsets)
    monkeypatch.setattr(database, "unsettled", lambda _: 0)
    monkeypatch.setattr(topics, "cut", cut)
    collect._await_calm(WHERE, 60.0)
    return clock.now_s


def test_it_ends_when_all_was_calm_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited_s(monkeypatch, lambda now_s: 0, lambda now_s: False) == 1.0
    assert waited_s(monkeypatch, lambda now_s: int(now_s < 20), lambda now_s: False) == 21.0


def test_what_is_never_calm_is_waited_for_as_long_as_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited_s(monkeypatch, lambda now_s: 1, lambda now_s: False) == 60.0


def test_a_broker_that_is_away_for_a_moment_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited_s(monkeypatch, lambda now_s: int(now_s < 30), lambda now_s: 5 <= now_s < 15) == 31.0


def test_one_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited_s(monkeypatch, lambda now_s: 0, lambda now_s: True) == collect.AWAY_S
    assert waited_s(monkeypatch, lambda now_s: 1, lambda now_s: now_s >= 10) == pytest.approx(9.5 + collect.AWAY_S)


def test_a_database_that_is_away_is_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: str) -> tuple[list[object], int]:
        raise psycopg.OperationalError("no route")

    clock = Clock()
    monkeypatch.setattr(collect, "time", clock)
    monkeypatch.setattr(database, "offsets", away)
    collect._await_calm(WHERE, 60.0)
    assert clock.now_s == collect.AWAY_S
