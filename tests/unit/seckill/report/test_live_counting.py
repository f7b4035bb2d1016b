"""Purchases that go on while the counts are taken are in flight, not broken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from kafka import TopicPartition

from seckill.messaging.topics import PURCHASE_REQUESTS
from seckill.report.live import counting
from seckill.report.live.residuals import ResidualState, residuals, worst_state
from seckill.report.sources.collect import Addresses

REQUESTS = TopicPartition(PURCHASE_REQUESTS.name, 0)


class Sale:
    """During each query one more purchase is decided and granted."""

    def __init__(self) -> None:
        self.decisions = 10

    def _goes_on(self) -> int:
        self.decisions += 1
        return self.decisions

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


def verdict(monkeypatch: pytest.MonkeyPatch, sale: Sale) -> ResidualState:
    monkeypatch.setattr(psycopg, "connect", sale.connect)
    monkeypatch.setattr(counting.LiveCounter, "_gate", sale.gate)
    monkeypatch.setattr(counting.LiveCounter, "_ends", sale.ends)
    return worst_state(residuals(counting.LiveCounter(Addresses("", "", "", Path())).count()))


def test_decisions_during_the_count_are_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(monkeypatch, Sale()) is ResidualState.IN_FLIGHT


def test_grants_without_a_request_are_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    sale = Sale()
    sale.gate = lambda *_: sale.decisions + 50  # type: ignore[method-assign]
    assert verdict(monkeypatch, sale) is ResidualState.BROKEN
