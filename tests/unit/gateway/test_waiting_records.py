"""Records that wait to be sent: order, deadlines, one batch of a partition at a time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.waiting_records import Content, Partition, Record, WaitingRecords

WAIT_S = 6.0
FIRST, SECOND = Partition("requests", 0), Partition("requests", 1)


def content(text: str) -> Content:
    return b"ann", text.encode(), []


def texts(records: Sequence[Record]) -> list[str]:
    return [record.content[1].decode() for record in records]


def always(number: int, content: Content) -> bool:
    return True


@pytest.fixture
def waiting() -> WaitingRecords:
    records = WaitingRecords(WAIT_S)
    for at, text in enumerate("abc"):
        records.append(FIRST, content(text), now=float(at))
    return records


def test_a_batch_has_the_oldest_records_that_fit(waiting: WaitingRecords) -> None:
    assert texts(waiting.take(FIRST, 3.0, lambda number, _: number < 2)) == ["a", "b"]
    waiting.end(FIRST)
    assert texts(waiting.take(FIRST, 3.0, always)) == ["c"]
    waiting.end(FIRST)
    assert waiting.is_empty


def test_a_partition_has_one_batch_under_way_and_the_others_are_not_stopped(waiting: WaitingRecords) -> None:
    waiting.append(SECOND, content("x"), now=0.0)
    waiting.take(FIRST, 3.0, lambda number, _: number < 1)
    assert waiting.sendable() == {SECOND}
    assert waiting.take(FIRST, 3.0, always) == []
    assert texts(waiting.take(SECOND, 3.0, always)) == ["x"]


def test_a_batch_that_failed_is_sent_again_before_everything_else(waiting: WaitingRecords) -> None:
    failed = waiting.take(FIRST, 3.0, lambda number, _: number < 2)
    waiting.append(FIRST, content("d"), now=3.0)
    waiting.put_back(FIRST, failed)
    assert waiting.sendable() == set(), "not before the next try"
    waiting.resume()
    assert texts(waiting.take(FIRST, 3.0, always)) == ["a", "b", "c", "d"]


def test_a_record_that_has_waited_too_long_is_not_sent_any_more(waiting: WaitingRecords) -> None:
    """Moving slots relies on it. The control is the moment before."""
    assert waiting.expire(WAIT_S - 0.1) == []
    assert texts(waiting.expire(WAIT_S + 1.0)) == ["a", "b"]
    assert texts(waiting.take(FIRST, WAIT_S + 1.0, always)) == ["c"]


def test_an_expired_record_is_not_taken_even_if_it_has_not_been_removed_yet(waiting: WaitingRecords) -> None:
    assert waiting.take(FIRST, WAIT_S, always) == []
    assert texts(waiting.expire(WAIT_S)) == ["a"]
    assert texts(waiting.take(FIRST, WAIT_S, always)) == ["b", "c"]


def test_a_failed_batch_keeps_the_deadlines_of_its_records(waiting: WaitingRecords) -> None:
    waiting.put_back(FIRST, waiting.take(FIRST, 5.9, always))
    assert texts(waiting.expire(WAIT_S)) == ["a"]


def test_a_paused_partition_waits_for_the_next_try(waiting: WaitingRecords) -> None:
    waiting.pause([FIRST])
    assert waiting.sendable() == set()
    waiting.resume()
    assert waiting.sendable() == {FIRST}
