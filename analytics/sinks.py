"""Shell: add counts to Postgres exactly once, and write facts to Parquet in a folder per batch.

After a crash a stream repeats its last batch with the same records and the same id. The batch's folder of facts is
overwritten. Its counts are staged by the tasks that computed them and added by one transaction that first inserts
(run, batch); if that row exists already, the transaction adds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from analytics.faults import LogMismatch
from analytics.measures import MEASURES, FrameShape, Measure, MergeRule
from analytics.sources import Cut, Offsets
from analytics.staging import stage_rows
from seckill.messaging import fault_points

if TYPE_CHECKING:
    import psycopg
    from pyspark.sql import DataFrame

WRITER_TASKS = 4  # tasks that write to Postgres, each with its own connection


def facts_folder(folder: str, run: UUID, batch: int) -> str:
    return f"{folder}/run={run}/batch={batch}"


def write_facts(events: DataFrame, folder: str, run: UUID, batch: int) -> None:
    """Overwrites what an earlier attempt at this batch left behind."""
    events.write.mode("overwrite").parquet(facts_folder(folder, run, batch))


def register_run(url: str, run: UUID, kind: str, log: Mapping[str, Any], cut: Cut | None = None) -> None:
    """Insert the run. If it exists, because a stream continues, its log must be the same, since its offsets are only
    valid for that log."""
    import psycopg

    starts, ends = (_offsets_json(cut.starts), _offsets_json(cut.ends)) if cut else ("{}", "{}")
    with psycopg.connect(url, connect_timeout=5) as connection:
        connection.execute(
            "INSERT INTO analytics_run (id, kind, log, starts, cut, started_at, updated_at)"
            " VALUES (%s, %s, %s, %s, %s, now(), now()) ON CONFLICT (id) DO NOTHING",
            [run, kind, json.dumps(log), starts, ends],
        )
        known = connection.execute("SELECT log FROM analytics_run WHERE id = %s", [run]).fetchone()
    if known is not None and known[0] != log:
        raise LogMismatch(
            "the checkpoint belongs to another log (another cluster, or topics that were created again); "
            "start from the beginning with a new folder for --checkpoint"
        )


def is_added(url: str, run: UUID, batch: int) -> bool:
    import psycopg

    with psycopg.connect(url, connect_timeout=5) as connection:
        found = connection.execute("SELECT 1 FROM analytics_batch WHERE run_id = %s AND batch = %s", [run, batch])
        return found.fetchone() is not None


def is_switched_off(url: str) -> bool:
    """Whether an operator has switched the statistics off."""
    import psycopg

    with psycopg.connect(url, connect_timeout=5) as connection:
        found = connection.execute("SELECT 1 FROM streams_switch WHERE consumer_group = 'analytics'")
        return found.fetchone() is not None


def add_counts(
    url: str, run: UUID, batch: int, shapes: Mapping[FrameShape, DataFrame], replaces: str | None = None
) -> bool:
    """Compute all measures and add them. Returns False if the batch had been added before. Runs of the kind `replaces`
    are deleted in the same transaction."""
    import psycopg

    with psycopg.connect(url, connect_timeout=5) as connection:  # rows that an earlier attempt left behind
        connection.execute("DELETE FROM analytics_staged WHERE run_id = %s", [run])
    compute_measures(shapes).coalesce(WRITER_TASKS).foreachPartition(partial(stage_rows, url, str(run), batch))
    fault_points.trigger("analytics.before_commit")
    with psycopg.connect(url, connect_timeout=5) as connection:
        is_new = _merge(connection, run, batch)
        connection.execute("DELETE FROM analytics_staged WHERE run_id = %s", [run])
        if replaces is not None:
            _delete_other_runs(connection, replaces, run)
    fault_points.trigger("analytics.after_commit")
    return is_new


def compute_measures(shapes: Mapping[FrameShape, DataFrame]) -> DataFrame:
    """All measures as rows of (measure, row as JSON), so that Spark runs one job instead of ten."""
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
        connection.execute(_merge_statement(measure), {"run": run, "batch": batch, "measure": measure.name})
    connection.execute(
        "UPDATE analytics_run SET updated_at = now(), cut = COALESCE("
        "  (SELECT jsonb_object_agg(topic, ends) FROM (SELECT topic, jsonb_object_agg(partition, next_offset) AS ends"
        "    FROM analytics_partition WHERE run_id = %(run)s GROUP BY topic) AS each), '{}')"
        " WHERE id = %(run)s AND kind = 'live'",
        {"run": run},
    )
    return True


def _delete_other_runs(connection: psycopg.Connection[Any], kind: str, keep: UUID) -> None:
    """Delete all runs of a kind except one."""
    others = "(SELECT id FROM analytics_run WHERE kind = %s AND id <> %s)"
    for table in ("batch", *(measure.name for measure in MEASURES)):
        statement = f"DELETE FROM analytics_{table} WHERE run_id IN {others}"
        connection.execute(statement.encode(), [kind, keep])
    connection.execute("DELETE FROM analytics_run WHERE kind = %s AND id <> %s", [kind, keep])


_MERGE_SQL: dict[MergeRule, str] = {
    "add": "{0} + EXCLUDED.{1}",
    "least": "LEAST({0}, EXCLUDED.{1})",
    "most": "GREATEST({0}, EXCLUDED.{1})",
}


def _merge_statement(measure: Measure) -> bytes:
    """One statement that inserts staged rows into the table of a measure or adds them to existing rows."""
    table = f"analytics_{measure.name}"
    names = ", ".join((*measure.keys, *measure.columns))
    added = ", ".join(
        f"{name} = {_MERGE_SQL[rule].format(f'{table}.{name}', name)}" for name, rule in measure.columns.items()
    )
    statement = (
        f"INSERT INTO {table} (run_id, {names})"
        f" SELECT %(run)s, {', '.join(f'r.{name}' for name in (*measure.keys, *measure.columns))}"
        f" FROM analytics_staged AS s, jsonb_populate_record(NULL::{table}, s.row) AS r"
        " WHERE s.run_id = %(run)s AND s.batch = %(batch)s AND s.measure = %(measure)s"
        f" ON CONFLICT (run_id, {', '.join(measure.keys)}) DO UPDATE SET {added}"
    )
    return statement.encode()


def _offsets_json(offsets: Offsets) -> str:
    return json.dumps({topic: {str(number): at for number, at in rows.items()} for topic, rows in offsets.items()})
