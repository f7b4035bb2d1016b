"""Shell: counts are added to Postgres exactly once, and facts laid down in Parquet under the name of their batch.

A batch of a stream may be worked on again after a crash, with the same records and the same id. Its folder of facts is
written over. Its counts are staged by the tasks that computed them and added by one transaction that first writes down
(run, batch); where that stands already, nothing is added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from analytics.faults import AnotherLog
from analytics.measures import MEASURES, How, Measure, Shape
from analytics.sources import Cut, Offsets
from analytics.staging import stage
from seckill.streams import faults

if TYPE_CHECKING:
    import psycopg
    from pyspark.sql import DataFrame

ROWS_AT_ONCE = 4  # tasks that write to Postgres, each with a connection of its own


def facts_folder(folder: str, run: UUID, batch: int) -> str:
    return f"{folder}/run={run}/batch={batch}"


def lay_down(events: DataFrame, folder: str, run: UUID, batch: int) -> None:
    """Whatever an earlier attempt at this batch has left is written over."""
    events.write.mode("overwrite").parquet(facts_folder(folder, run, batch))


def begin(url: str, run: UUID, kind: str, log: Mapping[str, Any], cut: Cut | None = None) -> None:
    """The run stands in its table. A stream that continues has done that before: then it must be the same log, or its
    offsets mean nothing."""
    import psycopg

    starts, ends = (_json(cut.starts), _json(cut.ends)) if cut else ("{}", "{}")
    with psycopg.connect(url, connect_timeout=5) as connection:
        connection.execute(
            "INSERT INTO analytics_run (id, kind, log, starts, cut, started_at, updated_at)"
            " VALUES (%s, %s, %s, %s, %s, now(), now()) ON CONFLICT (id) DO NOTHING",
            [run, kind, json.dumps(log), starts, ends],
        )
        known = connection.execute("SELECT log FROM analytics_run WHERE id = %s", [run]).fetchone()
    if known is not None and known[0] != log:
        raise AnotherLog(
            "the checkpoint belongs to another log (another cluster, or topics that were made anew); "
            "name a new one with --checkpoint, and it begins at the start"
        )


def is_added(url: str, run: UUID, batch: int) -> bool:
    import psycopg

    with psycopg.connect(url, connect_timeout=5) as connection:
        found = connection.execute("SELECT 1 FROM analytics_batch WHERE run_id = %s AND batch = %s", [run, batch])
        return found.fetchone() is not None


def is_switched_off(url: str) -> bool:
    """Whether an operator has told the statistics to hold still (`seckill switch off analytics`)."""
    import psycopg

    with psycopg.connect(url, connect_timeout=5) as connection:
        found = connection.execute("SELECT 1 FROM streams_switch WHERE consumer_group = 'analytics'")
        return found.fetchone() is not None


def add(url: str, run: UUID, batch: int, shapes: Mapping[Shape, DataFrame], replaces: str | None = None) -> bool:
    """Compute all measures and add them; False if they had been added before. `replaces`: runs of this kind go."""
    import psycopg

    with psycopg.connect(url, connect_timeout=5) as connection:  # what an earlier attempt has left
        connection.execute("DELETE FROM analytics_staged WHERE run_id = %s", [run])
    computed(shapes).coalesce(ROWS_AT_ONCE).foreachPartition(partial(stage, url, str(run), batch))
    faults.point("analytics.before_commit")
    with psycopg.connect(url, connect_timeout=5) as connection:
        is_new = _merge(connection, run, batch)
        connection.execute("DELETE FROM analytics_staged WHERE run_id = %s", [run])
        if replaces is not None:
            _forget(connection, replaces, run)
    faults.point("analytics.after_commit")
    return is_new


def computed(shapes: Mapping[Shape, DataFrame]) -> DataFrame:
    """All measures under one another, as rows of (measure, row in JSON): one job for Spark instead of ten."""
    from functools import reduce

    from pyspark.sql import functions as f

    frames = []
    for measure in MEASURES:
        names = (*measure.keys, *measure.columns)
        row = f.to_json(f.struct(*names), {"ignoreNullFields": "false"})
        frames.append(measure.frame(shapes[measure.of]).select(f.lit(measure.name).alias("measure"), row.alias("row")))
    return reduce(lambda one, other: one.unionAll(other), frames)


def _merge(connection: psycopg.Connection[Any], run: UUID, batch: int) -> bool:
    done = connection.execute(
        "INSERT INTO analytics_batch (run_id, batch, records, added_at)"
        " SELECT %(run)s, %(batch)s, COALESCE(sum((row->>'records')::bigint), 0), now() FROM analytics_staged"
        " WHERE run_id = %(run)s AND batch = %(batch)s AND measure = 'partition' ON CONFLICT DO NOTHING",
        {"run": run, "batch": batch},
    )
    if done.rowcount == 0:
        return False
    for measure in MEASURES:
        connection.execute(_merging(measure), {"run": run, "batch": batch, "measure": measure.name})
    connection.execute(
        "UPDATE analytics_run SET updated_at = now(), cut = COALESCE("
        "  (SELECT jsonb_object_agg(topic, ends) FROM (SELECT topic, jsonb_object_agg(partition, next_offset) AS ends"
        "    FROM analytics_partition WHERE run_id = %(run)s GROUP BY topic) AS each), '{}')"
        " WHERE id = %(run)s AND kind = 'live'",
        {"run": run},
    )
    return True


def _forget(connection: psycopg.Connection[Any], kind: str, but: UUID) -> None:
    """All runs of a kind but one."""
    others = "(SELECT id FROM analytics_run WHERE kind = %s AND id <> %s)"
    for table in ("batch", *(measure.name for measure in MEASURES)):
        statement = f"DELETE FROM analytics_{table} WHERE run_id IN {others}"
        connection.execute(statement.encode(), [kind, but])
    connection.execute("DELETE FROM analytics_run WHERE kind = %s AND id <> %s", [kind, but])


_HOW: dict[How, str] = {
    "add": "{0} + EXCLUDED.{1}",
    "least": "LEAST({0}, EXCLUDED.{1})",
    "most": "GREATEST({0}, EXCLUDED.{1})",
}


def _merging(measure: Measure) -> bytes:
    """One statement: staged rows become rows of the table, or are added to those that are there."""
    table = f"analytics_{measure.name}"
    names = ", ".join((*measure.keys, *measure.columns))
    added = ", ".join(f"{name} = {_HOW[how].format(f'{table}.{name}', name)}" for name, how in measure.columns.items())
    statement = (
        f"INSERT INTO {table} (run_id, {names})"
        f" SELECT %(run)s, {', '.join(f'r.{name}' for name in (*measure.keys, *measure.columns))}"
        f" FROM analytics_staged AS s, jsonb_populate_record(NULL::{table}, s.row) AS r"
        " WHERE s.run_id = %(run)s AND s.batch = %(batch)s AND s.measure = %(measure)s"
        f" ON CONFLICT (run_id, {', '.join(measure.keys)}) DO UPDATE SET {added}"
    )
    return statement.encode()


def _json(offsets: Offsets) -> str:
    return json.dumps({topic: {str(number): at for number, at in rows.items()} for topic, rows in offsets.items()})
