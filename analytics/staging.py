"""Shell: what a task of Spark's does with its rows. It travels to the executors as code, so it imports nothing of ours:
a cluster's machines need `psycopg`, and no copy of this project."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_DELETE = "DELETE FROM analytics_staged WHERE run_id = %s AND batch = %s AND part = %s"
_COPY = "COPY analytics_staged (run_id, batch, part, measure, row) FROM STDIN"


def stage(url: str, run: str, batch: int, rows: Iterable[Any]) -> None:
    """A task may run twice: the second replaces what the first has written."""
    import psycopg
    from pyspark import TaskContext

    context = TaskContext.get()
    place = (run, batch, context.partitionId() if context else 0)
    with psycopg.connect(url, connect_timeout=5) as connection, connection.cursor() as cursor:
        cursor.execute(_DELETE, place)
        with cursor.copy(_COPY) as copy:
            for row in rows:
                copy.write_row((*place, row.measure, row.row))
