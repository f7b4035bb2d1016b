"""Shell: count in Postgres, Redis and the topics, in an order that makes the counts comparable.

The gate moves on after the snapshot of Postgres, so the ends of the topics are read last: the requests between the
snapshot and these ends are in flight and explain the difference.
"""

from __future__ import annotations

from typing import Any

import psycopg
from kafka import TopicPartition
from kafka.errors import KafkaError
from redis.exceptions import RedisError

from seckill.messaging.topics import TOPICS
from seckill.report.identity import Id
from seckill.report.live.residuals import LiveCounts
from seckill.report.rows import Stock
from seckill.report.sources import gate, topics
from seckill.report.sources.collect import Addresses, consumer_groups

GRACE_S = 60

# Names are fields of Counts.
_STATEMENTS = {
    "oversold": "SELECT coalesce(sum(greatest(0, s.reserved + s.sold - coalesce(l.supplied, 0))), 0)::bigint "
    "FROM inventory_stock s LEFT JOIN supplied l ON l.stock_id = s.id",
    "unbalanced": "SELECT coalesce(sum(abs(s.available - coalesce(l.available, 0)) "
    "+ abs(s.reserved - coalesce(l.reserved, 0)) + abs(s.sold - coalesce(l.sold, 0)) "
    "+ abs(coalesce(l.supplied, 0) - s.available - s.reserved - s.sold)), 0)::bigint "
    "FROM inventory_stock s LEFT JOIN supplied l ON l.stock_id = s.id",
    "reserved": "SELECT count(*) FROM inventory_decided WHERE decision = 'RESERVED'",
    "placed": "SELECT (SELECT count(*) FROM orders_order) + (SELECT count(*) FROM inventory_hold h "
    "WHERE state = 'released' AND NOT EXISTS (SELECT FROM orders_order o WHERE o.request_id = h.request_id))",
    "orders_without": "SELECT count(*) FROM orders_order o WHERE NOT EXISTS (SELECT FROM inventory_decided d "
    "WHERE d.request_id = o.request_id AND d.decision = 'RESERVED')",
    "twice_active": "SELECT count(*) FROM (SELECT FROM inventory_hold WHERE state <> 'released' "
    "GROUP BY sale_id, user_id HAVING count(*) > 1) AS twice",
    "returned_twice": "SELECT count(*) FROM (SELECT FROM inventory_ledger WHERE kind IN ('release', 'return') "
    "GROUP BY request_id HAVING count(*) > 1) AS twice",
    "paid_unpaid": "SELECT count(*) FROM orders_order o LEFT JOIN (SELECT order_id, sum(amount) AS kept "
    "FROM orders_payment WHERE captured_at IS NOT NULL AND refunded_at IS NULL GROUP BY order_id) p "
    "ON p.order_id = o.id WHERE o.amount > 0 AND (o.state = 'PAID') <> (coalesce(p.kept, 0) = o.amount)",
    "refunding": "SELECT count(*) FROM orders_payment WHERE state = 'refunding'",
    "accounted": "SELECT (SELECT count(*) FROM inventory_decided d WHERE (topic_id, partition, record_offset) "
    "NOT IN (SELECT topic_id, partition, record_offset FROM streams_dead_letter WHERE consumer_group = 'inventory')) "
    "+ (SELECT count(*) FROM inventory_redelivery) "
    "+ (SELECT count(*) FROM streams_dead_letter WHERE consumer_group = 'inventory')",
    "decided_twice": "SELECT count(*) - count(DISTINCT request_id) FROM inventory_decided",
    "overdue": f"SELECT count(*) FROM orders_order WHERE state = 'PENDING_PAYMENT' "
    f"AND pay_before < now() - interval '{GRACE_S} seconds'",
    "deliveries_due": "SELECT count(*) FROM notifications_delivery WHERE state = 'due'",
    "unpublished": "SELECT count(*) FROM streams_outbox",
    "gate_releases_due": "SELECT count(*) FROM inventory_gate_sync",
    "mispriced": "SELECT (SELECT count(*) FROM orders_order o JOIN inventory_stock s USING (sale_id, sku) "
    "WHERE o.state <> 'NOT_PLACED' AND o.amount <> s.unit_price * o.quantity) "
    "+ (SELECT count(*) FROM orders_payment p JOIN orders_order o ON o.id = p.order_id WHERE p.amount <> o.amount)",
    "kept_waiting": "SELECT count(*) FROM gateway_outcome g JOIN inventory_hold h USING (request_id) "
    "WHERE g.may_buy_again <> (h.state = 'released')",
    "misplaced": "SELECT (SELECT count(*) FROM inventory_decided d JOIN inventory_hold h USING (request_id) "
    "WHERE (h.user_id, h.sale_id, h.quantity) <> (d.user_id, d.sale_id, d.quantity)) "
    "+ (SELECT count(*) FROM inventory_decided d JOIN orders_order o USING (request_id) "
    "WHERE (o.user_id, o.sale_id, o.sku, o.quantity) <> (d.user_id, d.sale_id, d.sku, d.quantity)) "
    "+ (SELECT count(*) FROM inventory_decided d JOIN gateway_outcome g USING (request_id) "
    "WHERE g.user_id <> d.user_id)",
    "misjudged": "SELECT count(*) FROM inventory_decided d LEFT JOIN inventory_stock s USING (sale_id, sku) "
    "LEFT JOIN inventory_sale a ON a.id = d.sale_id WHERE CASE d.decision "
    "WHEN 'CLOSED' THEN a.state IS DISTINCT FROM 'closed' WHEN 'LIMIT_REACHED' THEN d.quantity <= s.cap "
    "WHEN 'TOO_LATE' THEN d.decided_at_ms <= d.deadline_ms "
    "WHEN 'INVALID' THEN s.id IS NOT NULL AND d.quantity BETWEEN 1 AND 1000000 AND NOT EXISTS ("
    "SELECT FROM streams_dead_letter l WHERE l.state = 'discarded' AND l.topic_id = d.topic_id "
    "AND l.partition = d.partition AND l.record_offset = d.record_offset) "
    "ELSE d.decided_at_ms > d.deadline_ms OR d.quantity > s.cap END",
    "misdirected": "SELECT count(*) FROM notifications_delivery n JOIN orders_transition t USING (event_id) "
    "JOIN orders_order o ON o.id = t.order_id WHERE o.user_id <> n.user_id",
    "astray": "SELECT count(*) FROM orders_order o WHERE o.state IS DISTINCT FROM "
    "(SELECT t.after FROM orders_transition t WHERE t.order_id = o.id ORDER BY t.id DESC LIMIT 1)",
    "most_units": "SELECT coalesce(max(cap), 1) FROM inventory_stock",
    "active_units": "SELECT coalesce(sum(reserved + sold), 0)::bigint FROM inventory_stock WHERE NOT gate_retired",
}
_SUPPLIED = """
WITH supplied AS (
  SELECT stock_id,
    sum(units * ((debit = 'supply')::int - (credit = 'supply')::int)) AS supplied,
    sum(units * ((credit = 'available')::int - (debit = 'available')::int)) AS available,
    sum(units * ((credit = 'reserved')::int - (debit = 'reserved')::int)) AS reserved,
    sum(units * ((credit = 'sold')::int - (debit = 'sold')::int)) AS sold
  FROM inventory_ledger GROUP BY stock_id)
"""
_STOCKS = (
    "SELECT id, sale_id, sku, declared, available, reserved, sold, version, gate_epoch FROM inventory_stock "
    "WHERE NOT gate_retired ORDER BY id"
)
_OFFSETS = "SELECT consumer_group, topic, partition, next_offset FROM streams_offset"

Reached = dict[tuple[str, str, int], int]


class LiveCounter:
    """Keeps its Kafka consumer from one count to the next."""

    def __init__(self, where: Addresses) -> None:
        self._where = where
        self._consumer: Any = None
        self._starts: dict[TopicPartition, int] = {}

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def count(self) -> LiveCounts:
        """Raises `psycopg.Error` without a database. Counts from other servers that do not answer are None."""
        with psycopg.connect(self._where.database, connect_timeout=5) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            numbers = {name: _first_value(connection, statement) for name, statement in _STATEMENTS.items()}
            stocks = [Stock(*row) for row in connection.execute(_STOCKS)]
            reached: Reached = {(row[0], row[1], row[2]): row[3] for row in connection.execute(_OFFSETS)}
        gate_units = self._gate(stocks)
        ends = self._ends()
        passed = sum(
            offset - self._starts.get(TopicPartition(topic, partition), 0)
            for (group, topic, partition), offset in reached.items()
            if group == "inventory"
        )
        behind = None if ends is None else _behind(ends, reached)
        return LiveCounts(**numbers, passed=passed, gate_units=gate_units, behind=behind)

    def _gate(self, stocks: list[Stock]) -> int | None:
        """Units that the gate has granted; None if Redis does not answer or has lost the gate's keys."""
        try:
            found = gate.read_gates(self._where.gate, stocks)
        except RedisError:
            return None
        if any(each.free is None for each in found):
            return None
        granted: list[dict[Id, int]] = [each.granted for each in found]
        return sum(sum(units.values()) for units in granted)

    def _ends(self) -> dict[TopicPartition, int] | None:
        try:
            if self._consumer is None:
                self._consumer = topics.open_consumer(self._where.kafka)
            places = topics.topic_partitions(self._consumer)
            self._starts = dict(self._consumer.beginning_offsets(places))
            return dict(self._consumer.end_offsets(places))
        except (KafkaError, OSError):
            self.close()
            return None


def _behind(ends: dict[TopicPartition, int], reached: Reached) -> dict[str, int]:
    counted = dict.fromkeys(consumer_groups(), 0)
    for place, end in ends.items():
        for group in TOPICS[place.topic].readers:
            if group in counted:
                counted[group] += max(0, end - reached.get((group, place.topic, place.partition), 0))
    return counted


def _first_value(connection: psycopg.Connection[Any], statement: str) -> int:
    row = connection.execute((_SUPPLIED + statement if "supplied l" in statement else statement).encode()).fetchone()
    assert row is not None
    return int(row[0])
