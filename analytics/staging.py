"""Shell: write the rows of a Spark task to the staging table. The module is sent to the executors as code and imports
nothing from this project, so the machines of a cluster need only `psycopg`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_DELETE = "DELETE FROM analytics_staged WHERE run_id = %s AND batch = %s AND part = %s"
_COPY = "COPY analytics_staged (run_id, batch, part, measure, row) FROM STDIN"


def stage_rows(url: str, run: str, batch: int, rows: Iterable[Any]) -> None:
    """A task may run twice; the second attempt replaces the rows of the first."""
    import psycopg
    from pyspark import TaskContext

    context = TaskContext.get()
    place = (run, batch, context.partitionId() if context else 0)
    with psycopg.connect(url, connect_timeout=5) as connection, connection.cursor() as cursor:
        cursor.execute(_DELETE, place)
        with cursor.copy(_COPY) as copy:
            for row in rows:
                copy.write_row((*place, row.measure, row.row))
