"""Statements of the hot path: parameters and results go to Postgres and come back in binary.

Django's own cursors write parameters into the text of a statement, which Postgres then has to read; for a batch of
five hundred rows that is most of the work. These run on the same connection, in the same transaction, and fail with
the same exceptions. They are not prepared: a plan that is kept from the day when its table was empty reads all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection


def execute(statement: str, parameters: Sequence[Any]) -> int:
    """How many rows it touched. Placeholders are `%b`."""
    return _run(statement, parameters).rowcount


def fetch(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    return _run(statement, parameters).fetchall()


def send(statement: str, parameters: Sequence[Any]) -> None:
    """As `execute`, for a statement that either does all of it or fails; inside of `unawaited` nobody waits for it."""
    _run(statement, parameters)


@contextmanager
def unawaited() -> Iterator[None]:
    """What is sent inside is worked on by Postgres while we make up the next; nothing can be asked, so only `send`.
    When the block ends, all of it is done, or what failed first is raised, and the transaction with it."""
    assert connection.in_atomic_block, "what fails late is undone with the rest"
    connection.ensure_connection()
    with connection.wrap_database_errors, connection.connection.pipeline():
        yield


def _run(statement: str, parameters: Sequence[Any]) -> psycopg.Cursor[tuple[Any, ...]]:
    connection.ensure_connection()
    connection.validate_no_broken_transaction()
    with connection.wrap_database_errors:
        cursor: psycopg.Cursor[tuple[Any, ...]] = psycopg.Cursor(connection.connection)
        return cursor.execute(statement.encode(), parameters, prepare=False, binary=True)
