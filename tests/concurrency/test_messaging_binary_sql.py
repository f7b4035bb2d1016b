"""Pipelined statements: all of them take effect or none, and the first failure is the one that is raised."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction

from seckill.messaging import binary_sql

_INSERT = (
    "INSERT INTO streams_switch (consumer_group, off_since) SELECT name, now() FROM unnest(%b::text[]) AS row (name)"
)
_SELECT = "SELECT consumer_group FROM streams_switch ORDER BY 1"


def insert(*names: str) -> None:
    binary_sql.send_only(_INSERT, [list(names)])


def stored() -> list[str]:
    return [row[0] for row in binary_sql.fetch(_SELECT, [])]


def test_pipelined_statements_have_run_when_the_block_ends() -> None:
    with transaction.atomic():
        with binary_sql.pipelined():
            insert("a", "b")
            insert("c")
        assert stored() == ["a", "b", "c"]
    assert stored() == ["a", "b", "c"]


@pytest.mark.parametrize("seconds", [0.0, 0.2])
@pytest.mark.parametrize("after", [0, 1, 500])
def test_the_first_failed_statement_is_raised_and_everything_is_rolled_back(after: int, seconds: float) -> None:
    """Later statements fail because of it. Raised instead, they would look like a database outage."""
    insert("there")
    with pytest.raises(IntegrityError, match="duplicate key"), transaction.atomic(), binary_sql.pipelined():
        insert("before")
        binary_sql.send_only("SELECT pg_sleep(%b)", [seconds])
        insert("there")
        for number in range(after):
            insert(f"after-{number}")
    assert stored() == ["there"]


def test_an_exception_in_the_block_passes_unchanged_and_everything_is_rolled_back() -> None:
    with pytest.raises(KeyError, match="raised in the block"), transaction.atomic(), binary_sql.pipelined():
        insert("before")
        raise KeyError("raised in the block")
    assert stored() == []


def test_pipelining_requires_a_transaction() -> None:
    assert not connection.in_atomic_block
    with pytest.raises(AssertionError), binary_sql.pipelined():
        insert("alone")
    assert stored() == []
