"""Shell: read the statistics of one run, aggregated by Postgres to what fits on a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from analytics.faults import StatsFault
from analytics.measures.buyers import SUSPECT_GAP_MS, SUSPECT_REQUESTS
from analytics.report.activity import PAUSE_MS

POINTS_MAX = 600
"""Points per curve. A longer sale is shown in longer steps."""
ROWS_MAX = 20
BUYER_REQUESTS_MAX = 20
"""Buyers with at least this many requests are counted together."""
STEPS_MS = (1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000, 86_400_000)

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RunStatistics:
    run: UUID
    kind: str
    updated_ms: int
    step_ms: int
    partitions: Rows  # topic, records, events, unreadable, late, holes
    faults: Rows  # topic, fault, records
    totals: Rows  # sale_id, kind, events, units, amount
    flow: Rows  # sale_id, at_ms (of the step), kind, events
    sell_through: Rows  # sale_id, sku, at_ms, reserved, released, sold
    revenue: Rows  # sale_id, at_ms, orders, amount, refunded
    skus: Rows  # sale_id, sku, requests, wanted, reserved, sold_out
    buyers: Rows  # by number of requests: how many buyers
    suspects: Rows  # sale_id, user_id, requests, refused, granted, first_ms, last_ms
    suspect_count: int
    latency: Rows  # sale_id, stage, bucket, events, most_ms
    fairness: Rows  # sale_id, sku, came_ms, granted, refused


_RUN = """
SELECT id, kind, (extract(epoch FROM updated_at) * 1000)::bigint AS updated_ms FROM analytics_run AS r
WHERE (%(kind)s::text IS NULL OR kind = %(kind)s) AND EXISTS (SELECT 1 FROM analytics_batch AS b WHERE b.run_id = r.id)
ORDER BY updated_at DESC LIMIT 1
"""
_ACTIVE = """
SELECT COALESCE(sum(LEAST(at_ms - before, %(pause)s)), 0)::bigint AS lasted FROM (
    SELECT at_ms, lag(at_ms) OVER (ORDER BY at_ms) AS before
    FROM (SELECT DISTINCT at_ms FROM analytics_flow WHERE run_id = %(run)s) AS seconds) AS steps
"""
"""The duration of all activity, where a pause counts as PAUSE_MS at most."""
_QUERIES = {
    "partitions": """
        SELECT p.topic, sum(records)::bigint AS records, sum(next_offset - first_offset - records)::bigint AS holes,
            max(last_log_ms) AS last_log_ms,
            (SELECT COALESCE(sum(events), 0)::bigint FROM analytics_total t
             WHERE t.run_id = %(run)s AND t.topic = p.topic) AS events,
            (SELECT COALESCE(sum(late), 0)::bigint FROM analytics_total t
             WHERE t.run_id = %(run)s AND t.topic = p.topic) AS late,
            (SELECT COALESCE(sum(u.records), 0)::bigint FROM analytics_unreadable u
             WHERE u.run_id = %(run)s AND u.topic = p.topic) AS unreadable
        FROM analytics_partition AS p WHERE run_id = %(run)s GROUP BY p.topic ORDER BY p.topic""",
    "faults": """
        SELECT topic, fault, sum(records)::bigint AS records FROM analytics_unreadable
        WHERE run_id = %(run)s GROUP BY topic, fault ORDER BY records DESC, topic, fault""",
    "totals": """
        SELECT sale_id, kind, sum(events)::bigint AS events, sum(units)::bigint AS units, sum(amount)::bigint AS amount
        FROM analytics_total WHERE run_id = %(run)s GROUP BY sale_id, kind ORDER BY sale_id, kind""",
    "flow": """
        SELECT sale_id, at_ms - at_ms %% %(step)s AS at_ms, kind, sum(events)::bigint AS events
        FROM analytics_flow WHERE run_id = %(run)s GROUP BY 1, 2, 3 ORDER BY 1, 2, 3""",
    "sell_through": """
        SELECT sale_id, sku, at_ms - at_ms %% %(step)s AS at_ms, sum(reserved)::bigint AS reserved,
            sum(released)::bigint AS released, sum(sold)::bigint AS sold
        FROM analytics_sell_through WHERE run_id = %(run)s
            AND (sale_id, sku) IN (SELECT sale_id, sku FROM analytics_sku WHERE run_id = %(run)s
                ORDER BY reserved DESC, requests DESC, sku LIMIT 10)
        GROUP BY 1, 2, 3 ORDER BY 1, 2, 3""",
    "revenue": """
        SELECT sale_id, at_ms, orders, amount, refunded FROM analytics_revenue
        WHERE run_id = %(run)s ORDER BY at_ms DESC LIMIT 1440""",
    "skus": """
        SELECT sale_id, sku, requests, wanted, reserved, sold_out FROM analytics_sku
        WHERE run_id = %(run)s ORDER BY requests DESC, sku LIMIT 20""",
    "buyers": f"""
        SELECT LEAST(requests, {BUYER_REQUESTS_MAX}) AS requests, count(*) AS buyers FROM analytics_buyer
        WHERE run_id = %(run)s AND requests > 0 GROUP BY 1 ORDER BY 1""",
    "latency": """
        SELECT sale_id, stage, bucket, events, most_ms FROM analytics_latency
        WHERE run_id = %(run)s ORDER BY sale_id, stage, bucket""",
    "fairness": """
        SELECT sale_id, came_ms - came_ms %% GREATEST(100, %(step)s / 10) AS came_ms, sum(granted)::bigint AS granted,
            sum(refused)::bigint AS refused
        FROM analytics_fairness WHERE run_id = %(run)s GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 6000""",
}
_SUSPECTS = f"""
FROM analytics_buyer WHERE run_id = %(run)s AND requests >= {SUSPECT_REQUESTS}
    AND last_ms - first_ms < (requests - 1) * {SUSPECT_GAP_MS}
"""


def read_statistics(url: str, kind: str | None = None) -> RunStatistics:
    """The run that was updated last. Raises `StatsFault` if there is none."""
    try:
        with psycopg.connect(url, connect_timeout=5, row_factory=dict_row) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            run = connection.execute(_RUN, {"kind": kind}).fetchone()
            if run is None:
                word = kind or "replay"
                raise StatsFault(f"no statistics have been made yet; run `seckill stats {word}`")
            wanted = {"run": run["id"], "step": _step_ms(connection, run["id"])}
            rows = {name: connection.execute(query, wanted).fetchall() for name, query in _QUERIES.items()}
            worst = "SELECT sale_id, user_id, requests, refused, granted, first_ms, last_ms"
            order = f" ORDER BY requests DESC, user_id LIMIT {ROWS_MAX}"
            suspects = connection.execute(worst + _SUSPECTS + order, wanted).fetchall()
            counted = connection.execute("SELECT count(*) AS buyers" + _SUSPECTS, wanted).fetchone()
    except psycopg.errors.UndefinedTable as fault:
        raise StatsFault("the database has no tables for statistics; run `seckill manage migrate`") from fault
    except psycopg.Error as fault:
        raise StatsFault(f"the database cannot be read: {str(fault).splitlines()[0]}") from fault
    assert counted is not None
    return RunStatistics(
        run["id"], run["kind"], run["updated_ms"], wanted["step"], suspects=suspects,
        suspect_count=counted["buyers"], **rows,
    )  # fmt: skip


def _step_ms(connection: Any, run: UUID) -> int:
    lasted = connection.execute(_ACTIVE, {"run": run, "pause": PAUSE_MS}).fetchone()["lasted"]
    return next((step for step in STEPS_MS if lasted / step <= POINTS_MAX), STEPS_MS[-1])
