"""Shell: read what Spark has counted: the latest replay and the latest live run, in one snapshot of their own."""

from __future__ import annotations

from typing import NamedTuple

import psycopg

from seckill.report.spark_counts import SparkCount, SparkCut

_LATEST_RUNS = (
    "(SELECT DISTINCT ON (kind) id, kind FROM analytics_run AS r"
    " WHERE EXISTS (SELECT 1 FROM analytics_batch AS b WHERE b.run_id = r.id) ORDER BY kind, updated_at DESC)"
)
"""The latest run of each kind. A run that has not counted a batch yet is ignored."""
_COUNTS = (
    "SELECT r.kind, topic, partition, t.kind, sum(events)::bigint, sum(units)::bigint, sum(amount)::bigint "
    f"FROM analytics_total AS t JOIN {_LATEST_RUNS} AS r ON r.id = t.run_id GROUP BY 1, 2, 3, 4"
)
_CUTS = (
    "SELECT r.kind, topic, partition, first_offset, next_offset, records "
    f"FROM analytics_partition AS p JOIN {_LATEST_RUNS} AS r ON r.id = p.run_id"
)


class Statistics(NamedTuple):
    spark_counts: list[SparkCount]
    spark_cuts: list[SparkCut]


def read_statistics(url: str) -> Statistics:
    """Raises `psycopg.Error` if the tables cannot be read."""
    with psycopg.connect(url, connect_timeout=5) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return Statistics(
            [SparkCount(*row) for row in connection.execute(_COUNTS)],
            [SparkCut(*row) for row in connection.execute(_CUTS)],
        )
