"""Deletes finished rows, a batch at a time, from the sweeps. docs/retention.md explains the rules below.

Rows are kept for `SECKILL_RETENTION_DAYS`, and longer while something that began earlier is unfinished: each service
records the time from which it still needs its rows, and the earliest of these times is the horizon. Rows below the
horizon are deleted only if no topic has an older record (the brokers are asked), so no record can be redelivered that
an inbox would have to recognise. A row records how far rows have been deleted, so a report on an older sale can say
that its evidence is incomplete.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from seckill.config.kafka_clients import client_options
from seckill.messaging.topics import DAY_MS, TOPICS

log = logging.getLogger(__name__)

PRUNE_INTERVAL_SECONDS = 60.0
ROWS_MAX = 1000
LOG_DAYS = 7
"""How long topics keep records (seckill/messaging/topics.py)."""
DAYS_MIN = LOG_DAYS + 1
AUDIT_DAYS = 365
LEASE_DAYS = 1
UNFINISHED_MARGIN = timedelta(hours=1)
"""The rows that unfinished work depends on are slightly older than the work itself."""
BOOTSTRAP_MS_MAX = 5000
SERVICES = ("inventory", "orders", "notifications")


class Rule(NamedTuple):
    """The rows of a table that may be deleted, as an SQL condition; `%(horizon)s` is a time."""

    table: str
    condition: str


RULES_BELOW_HORIZON: dict[str, tuple[Rule, ...]] = {
    "inventory": (
        Rule("inventory_decided", "decided_at_ms < extract(epoch FROM %(horizon)s::timestamptz) * 1000"),
        Rule("inventory_redelivery", "at < %(horizon)s"),
        Rule("inventory_settled", "at < %(horizon)s"),
        Rule("gateway_outcome", "updated_at < %(horizon)s"),
        Rule("streams_dead_letter", "state IN ('replayed', 'discarded') AND closed_at < %(horizon)s"),
        Rule(
            "streams_divert",
            "began_at < %(horizon)s AND id NOT IN (SELECT diverted FROM streams_slot_map)",
        ),
    ),
    "orders": (
        Rule("orders_read_decision", "at < %(horizon)s"),
        Rule("orders_transition", "at < %(horizon)s"),
        Rule("orders_callback", "first_at < %(horizon)s"),
        Rule("orders_discrepancy", "state = 'settled' AND settled_at < %(horizon)s"),
    ),
    "notifications": (Rule("notifications_delivery", "state IN ('done', 'given_up') AND due_at < %(horizon)s"),),
}
"""Keyed by the service whose sweep deletes the rows."""

RULES_BY_OWN_TIME: dict[str, tuple[Rule, ...]] = {
    "inventory": (
        Rule("streams_producer_lease", f"expires_at < now() - interval '{LEASE_DAYS} days'"),
        Rule("audit_entry", f"at < now() - interval '{AUDIT_DAYS} days'"),
        Rule("django_session", "expire_date < now()"),
    )
}

_NEEDS = {
    "inventory": """
SELECT least(
    (SELECT to_timestamp(min(least(sale.opens_at_ms, 100000000000000)) / 1000.0)
     FROM inventory_stock AS stock JOIN inventory_sale AS sale ON sale.id = stock.sale_id
     WHERE stock.reserved > 0 OR NOT stock.gate_retired),
    (SELECT min(died_at) FROM streams_dead_letter WHERE state IN ('open', 'quarantined')),
    (SELECT min(created_at) FROM streams_outbox))
""",
    "orders": """
SELECT least(
    (SELECT min(placed_at) FROM orders_order WHERE state = 'PENDING_PAYMENT'),
    (SELECT min(opened_at) FROM orders_payment WHERE state IN ('open', 'refunding')),
    (SELECT min(found_at) FROM orders_discrepancy WHERE state <> 'settled'))
""",
    "notifications": "SELECT min(due_at) - interval '1 day' FROM notifications_delivery WHERE state = 'due'",
}
"""The earliest time of unfinished work; null if everything is finished."""

_KEEP_FROM = """
INSERT INTO streams_retention AS mine (service, needs_from, pruned_to) VALUES (%s, %s, NULL)
ON CONFLICT (service) DO UPDATE SET needs_from = EXCLUDED.needs_from
"""
_HORIZON = "SELECT min(needs_from), count(*) FROM streams_retention"
_PRUNED = """
UPDATE streams_retention SET pruned_to = greatest(pruned_to, %s) WHERE service = %s RETURNING pruned_to
"""
_DELETE = """
DELETE FROM {table} WHERE ctid IN (SELECT ctid FROM {table} WHERE {condition} LIMIT {most} FOR UPDATE SKIP LOCKED)
"""


class Pruner:
    """Runs in one sweep, on a thread of its own."""

    def __init__(self, service: str) -> None:
        self._service = service

    def run_once(self) -> bool:
        """Returns whether a batch was full, so more rows are waiting."""
        full = [delete_some(rule, None) == ROWS_MAX for rule in RULES_BY_OWN_TIME.get(self._service, ())]
        horizon = self._horizon()
        if horizon is not None:
            _run(_PRUNED, [horizon, self._service])  # before the first row is deleted
            full += [delete_some(rule, horizon) == ROWS_MAX for rule in RULES_BELOW_HORIZON[self._service]]
        return any(full)

    def _horizon(self) -> datetime | None:
        days = settings.ENVIRONMENT.retention_days
        if not days:
            return None
        wanted = datetime.now(UTC) - timedelta(days=max(days, DAYS_MIN))
        [(unfinished,)] = _run(_NEEDS[self._service], [])
        _run(_KEEP_FROM, [self._service, wanted if unfinished is None else min(wanted, unfinished - UNFINISHED_MARGIN)])
        [(horizon, count)] = _run(_HORIZON, [])
        if count < len(SERVICES) or not is_before_every_log(horizon):
            return None
        return datetime.fromtimestamp(horizon.timestamp(), UTC)


def delete_some(rule: Rule, horizon: datetime | None) -> int:
    """Delete up to `ROWS_MAX` rows; returns how many were deleted."""
    statement = _DELETE.format(table=rule.table, condition=rule.condition, most=ROWS_MAX)
    with connection.cursor() as cursor:
        cursor.execute(statement, {"horizon": horizon})
        if cursor.rowcount:
            log.info("pruned", extra={"table": rule.table, "rows": cursor.rowcount})
        return int(cursor.rowcount)


def is_before_every_log(horizon: datetime) -> bool:
    """Whether no topic has a record older than the horizon. False if the brokers do not answer."""
    try:
        consumer = KafkaConsumer(
            **client_options(settings.ENVIRONMENT.kafka_bootstrap_servers), client_id="pruning",
            bootstrap_timeout_ms=BOOTSTRAP_MS_MAX, request_timeout_ms=10_000, enable_auto_commit=False,
        )  # fmt: skip
    except (KafkaError, OSError, ValueError) as fault:
        log.warning("pruning skipped", extra={"reason": str(fault)})
        return False
    try:
        at_ms = int(horizon.timestamp() * 1000)
        places = [TopicPartition(name, each) for name in TOPICS for each in consumer.partitions_for_topic(name) or ()]
        starts = consumer.beginning_offsets(places)
        ends = consumer.end_offsets(places)
        later = consumer.offsets_for_times(dict.fromkeys(places, at_ms))
        firsts = {place: ends[place] if found is None else found.offset for place, found in later.items()}
        return bool(places) and all(firsts[place] <= starts[place] for place in places)
    except (KafkaError, OSError, ValueError) as fault:
        log.warning("pruning skipped", extra={"reason": str(fault)})
        return False
    finally:
        consumer.close(autocommit=False)


def _run(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall()) if cursor.description else []


assert all(int(topic.configs["retention.ms"]) <= LOG_DAYS * DAY_MS for topic in TOPICS.values())
