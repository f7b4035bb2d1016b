"""SQL statements of the hot path, with parameters and results in Postgres' binary format.

Django's cursors write parameters into the statement's text, which Postgres then has to parse; for a batch of five
hundred rows that is most of the work. These statements run on Django's connection, in the same transaction, and raise
the same exceptions. They are not prepared, because a plan cached while its table was empty would scan all of it later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection


def execute(statement: str, parameters: Sequence[Any]) -> int:
    """Returns the number of affected rows. Placeholders are `%b`."""
    return _run(statement, parameters).rowcount


def fetch(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    return _run(statement, parameters).fetchall()


def send_only(statement: str, parameters: Sequence[Any]) -> None:
    """As `execute`, but without a result, so it can be pipelined."""
    _run(statement, parameters)


@contextmanager
def pipelined() -> Iterator[None]:
    """Send the block's statements without waiting for each result, so only `send_only` works inside. At the end of the
    block all of them have run, or the first failure is raised and the transaction fails."""
    assert connection.in_atomic_block, "a late failure must roll back the earlier statements"
    connection.ensure_connection()
    with connection.wrap_database_errors, connection.connection.pipeline():
        yield


def _run(statement: str, parameters: Sequence[Any]) -> psycopg.Cursor[tuple[Any, ...]]:
    connection.ensure_connection()
    connection.validate_no_broken_transaction()
    with connection.wrap_database_errors:
        cursor: psycopg.Cursor[tuple[Any, ...]] = psycopg.Cursor(connection.connection)
        return cursor.execute(statement.encode(), parameters, prepare=False, binary=True)
