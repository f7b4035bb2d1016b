"""Statements of the hot path: parameters and results go to Postgres and come back in binary.

Django's own cursors write parameters into the text of a statement, which Postgres then has to read; for a batch of
five hundred rows that is most of the work. These run on the same connection, in the same transaction, and fail with
the same exceptions. They are not prepared: a plan that is kept from the day when its table was empty reads all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from django.db import connection


def execute(statement: str, parameters: Sequence[Any]) -> int:
    """How many rows it touched. Placeholders are `%b`."""
    return _run(statement, parameters).rowcount


def fetch(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    return _run(statement, parameters).fetchall()


def _run(statement: str, parameters: Sequence[Any]) -> psycopg.Cursor[tuple[Any, ...]]:
    connection.ensure_connection()
    connection.validate_no_broken_transaction()
    with connection.wrap_database_errors:
        cursor: psycopg.Cursor[tuple[Any, ...]] = psycopg.Cursor(connection.connection)
        return cursor.execute(statement.encode(), parameters, prepare=False, binary=True)
