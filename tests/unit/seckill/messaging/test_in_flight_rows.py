"""Outbox rows in flight: a busy partition blocks only its own rows, and they keep their order."""

from __future__ import annotations

import pytest
from kafka.future import Future

from seckill.messaging import in_flight_rows
from seckill.messaging.in_flight_rows import InFlightRows, SentRow

BUSY, FREE = ("events", 0), ("events", 1)


def test_a_partition_is_busy_until_all_of_its_rows_are_answered() -> None:
    rows, first, second = InFlightRows(), Future(), Future()
    rows.add_sent(BUSY, [SentRow(1, first), SentRow(2, second)])
    first.success(None)
    assert rows.take_settled().acknowledged == [1]
    assert rows.is_busy(BUSY) and not rows.is_busy(FREE)
    second.success(None)
    assert rows.take_settled().acknowledged == [2]
    assert not rows.is_busy(BUSY) and not rows.has_any


def test_blocked_rows_are_known_until_their_partition_is_free_and_then_selected_again() -> None:
    rows, future = InFlightRows(), Future()
    rows.add_sent(BUSY, [SentRow(1, future)])
    rows.add_blocked(BUSY, 5)
    assert sorted(rows.known_ids()) == [1, 5]
    future.success(None)
    rows.take_settled()
    assert rows.known_ids() == []


def test_a_rejected_row_is_returned_with_its_reason() -> None:
    rows, future, reason = InFlightRows(), Future(), ValueError("too large")
    rows.add_sent(BUSY, [SentRow(1, future)])
    future.failure(reason)
    assert rows.take_settled().rejected == [(1, reason)]
    assert not rows.is_busy(BUSY)


def test_no_more_rows_are_selected_while_too_many_are_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight_rows, "BLOCKED_ROWS_MAX", 2)
    rows = InFlightRows()
    rows.add_blocked(BUSY, 1)
    assert not rows.is_full
    rows.add_blocked(BUSY, 2)
    assert rows.is_full
