"""S: what Spark has counted: the last replay and the last live run, in one snapshot of their own."""

from __future__ import annotations

from typing import NamedTuple

import psycopg

from seckill.consistency.counted import Counted, CountedTo

_LAST = (
    "(SELECT DISTINCT ON (kind) id, kind FROM analytics_run AS r"
    " WHERE EXISTS (SELECT 1 FROM analytics_batch AS b WHERE b.run_id = r.id) ORDER BY kind, updated_at DESC)"
)
"""Of each kind; one that was begun and has not counted anything is none."""
_COUNTED = (
    "SELECT r.kind, topic, partition, t.kind, sum(events)::bigint, sum(units)::bigint, sum(amount)::bigint "
    f"FROM analytics_total AS t JOIN {_LAST} AS r ON r.id = t.run_id GROUP BY 1, 2, 3, 4"
)
_TO = (
    "SELECT r.kind, topic, partition, first_offset, next_offset, records "
    f"FROM analytics_partition AS p JOIN {_LAST} AS r ON r.id = p.run_id"
)


class Statistics(NamedTuple):
    counted: list[Counted]
    counted_to: list[CountedTo]


def read(url: str) -> Statistics:
    """`psycopg.Error` if it cannot be read."""
    with psycopg.connect(url, connect_timeout=5) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return Statistics(
            [Counted(*row) for row in connection.execute(_COUNTED)],
            [CountedTo(*row) for row in connection.execute(_TO)],
        )
