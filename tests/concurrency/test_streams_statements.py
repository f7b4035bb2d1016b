"""Statements that nobody waits for one by one: all of them or none, and the first failure is the one that is told."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction

from seckill.streams import statements

_PUT = "INSERT INTO streams_switch (consumer_group, off_since) SELECT name, now() FROM unnest(%b::text[]) AS row (name)"
_LOOK = "SELECT consumer_group FROM streams_switch ORDER BY 1"


def put(*names: str) -> None:
    statements.send(_PUT, [list(names)])


def found() -> list[str]:
    return [row[0] for row in statements.fetch(_LOOK, [])]


def test_what_is_sent_is_there_when_the_block_ends() -> None:
    with transaction.atomic():
        with statements.unawaited():
            put("a", "b")
            put("c")
        assert found() == ["a", "b", "c"]
    assert found() == ["a", "b", "c"]


@pytest.mark.parametrize("seconds", [0.0, 0.2])
@pytest.mark.parametrize("after", [0, 1, 500])
def test_the_first_failure_is_told_whatever_follows_and_nothing_stays(after: int, seconds: float) -> None:
    """Those that follow fail for it; told instead of it, they would be taken for a database that is away."""
    put("there")
    with pytest.raises(IntegrityError, match="duplicate key"), transaction.atomic(), statements.unawaited():
        put("before")
        statements.send("SELECT pg_sleep(%b)", [seconds])
        put("there")
        for number in range(after):
            put(f"after-{number}")
    assert found() == ["there"]


def test_a_mistake_of_ours_in_the_block_is_told_as_it_is_and_nothing_stays() -> None:
    with pytest.raises(KeyError, match="ours"), transaction.atomic(), statements.unawaited():
        put("before")
        raise KeyError("ours")
    assert found() == []


def test_outside_of_a_transaction_nothing_is_sent_so() -> None:
    assert not connection.in_atomic_block
    with pytest.raises(AssertionError), statements.unawaited():
        put("alone")
    assert found() == []
