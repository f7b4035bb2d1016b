"""A look at books that go on while they are read: what happens in between is under way, not broken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from kafka import TopicPartition

from seckill.consistency.live import counting
from seckill.consistency.live.residuals import State, residuals, worst
from seckill.consistency.sources.collect import Addresses
from seckill.topics import PURCHASE_REQUESTS

REQUESTS = TopicPartition(PURCHASE_REQUESTS.name, 0)


class Sale:
    """Each question that is asked of it takes so long that one more purchase is decided and granted meanwhile."""

    def __init__(self) -> None:
        self.decided = 10

    def _goes_on(self) -> int:
        self.decided += 1
        return self.decided

    def execute(self, statement: str | bytes) -> Any:
        asked = statement if isinstance(statement, str) else statement.decode()
        at = self._snapshot
        if asked == counting._OFFSETS:
            return [("inventory", *REQUESTS, at)]
        rows = {"active_units": at, "accounted": at, "reserved": at, "placed": at, "most_units": 1}
        name = next((name for name, text in counting._STATEMENTS.items() if asked.endswith(text)), "")
        return Rows([(rows.get(name, 0),)]) if name else Rows([])

    @contextmanager
    def connect(self, *_: object, **__: object) -> Iterator[Sale]:
        self._snapshot = self._goes_on()
        yield self

    def gate(self, *_: object) -> int:
        return self._goes_on()

    def ends(self, *_: object) -> dict[TopicPartition, int]:
        return {REQUESTS: self._goes_on()}


class Rows(list[tuple[int, ...]]):
    def fetchone(self) -> tuple[int, ...]:
        return self[0]


def verdict(monkeypatch: pytest.MonkeyPatch, sale: Sale) -> State:
    monkeypatch.setattr(psycopg, "connect", sale.connect)
    monkeypatch.setattr(counting.Counter, "_gate", sale.gate)
    monkeypatch.setattr(counting.Counter, "_ends", sale.ends)
    return worst(residuals(counting.Counter(Addresses("", "", "", Path())).look()))


def test_what_is_decided_while_the_books_are_read_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(monkeypatch, Sale()) is State.IN_FLIGHT


def test_what_nobody_asked_for_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    sale = Sale()
    sale.gate = lambda *_: sale.decided + 50  # type: ignore[method-assign]
    assert verdict(monkeypatch, sale) is State.BROKEN
