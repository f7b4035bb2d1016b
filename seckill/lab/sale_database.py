"""Shell: every SQL statement with which experiments and benchmarks look at, or damage, the services' tables.

Services see each other only through events. An experiment has to look at all of them at once, so its knowledge of their
tables is in this one module: a renamed column breaks it here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import psycopg

from seckill.messaging.partitioners import SlotTable
from seckill.messaging.records import CRASHED
from seckill.messaging.topics import PURCHASE_REQUESTS

CONNECT_SECONDS_MAX = 5

_COUNTS = """
SELECT (SELECT count(*) FROM inventory_decided), coalesce(sum(available), 0)::bigint,
       coalesce(sum(reserved), 0)::bigint, coalesce(sum(sold), 0)::bigint,
       (SELECT count(*) FROM notifications_delivery WHERE state = 'due')
FROM inventory_stock
"""


class SaleCounts(NamedTuple):
    """The state of all sales at one moment."""

    decided: int
    available: int
    reserved: int
    sold: int
    deliveries_due: int


class SaleDatabase:
    """Each call opens its own connection, because an experiment may restart Postgres; `keep_connection` keeps one for
    benchmarks, where a new connection per query would be work for the Postgres that they measure."""

    def __init__(self, url: str, *, keep_connection: bool = False) -> None:
        self.url = url
        self._kept = psycopg.connect(url, autocommit=True) if keep_connection else None

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()

    def query(self, statement: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
        if self._kept is not None:
            return self._kept.execute(statement, parameters).fetchall()
        with psycopg.connect(self.url, autocommit=True, connect_timeout=CONNECT_SECONDS_MAX) as connection:
            return connection.execute(statement, parameters).fetchall()

    def execute(self, statement: LiteralString, *parameters: object) -> int:
        """Run a statement that changes rows. Returns their number."""
        with psycopg.connect(self.url, autocommit=True, connect_timeout=CONNECT_SECONDS_MAX) as connection:
            return connection.execute(statement, parameters).rowcount

    def number(self, statement: LiteralString, *parameters: object) -> int:
        return int(self.query(statement, *parameters)[0][0] or 0)

    # ── the sale as a whole ──────────────────────────────────────────────────────────────────────

    def counts(self) -> SaleCounts:
        return SaleCounts(*self.query(_COUNTS)[0])

    def unsettled(self) -> int:
        """Reservations without an outcome, plus messages that are still due."""
        return self.number(
            "SELECT (SELECT count(*) FROM inventory_hold WHERE state = 'reserved')"
            " + (SELECT count(*) FROM notifications_delivery WHERE state = 'due')"
        )

    def table_bytes(self) -> dict[str, int]:
        """The size of each table of the services with its indexes."""
        rows = self.query(
            "SELECT relname, pg_total_relation_size(relid)::bigint FROM pg_stat_user_tables"
            " WHERE NOT starts_with(relname, 'analytics')"
        )
        return dict(rows)

    # ── inventory: decisions ─────────────────────────────────────────────────────────────────────

    def decided(self, sale: int | None = None) -> int:
        if sale is None:
            return self.number("SELECT count(*) FROM inventory_decided")
        return self.number("SELECT count(*) FROM inventory_decided WHERE sale_id = %s", sale)

    def decided_as(self, decision: str, sale: int | None = None) -> int:
        statement = "SELECT count(*) FROM inventory_decided WHERE decision = %s AND sale_id = coalesce(%s, sale_id)"
        return self.number(statement, decision, sale)

    def decisions(self, sale: int) -> list[tuple[str, int]]:
        """How often each decision was made, the most frequent first."""
        rows = self.query(
            "SELECT decision, count(*) FROM inventory_decided WHERE sale_id = %s GROUP BY 1 ORDER BY 2 DESC", sale
        )
        return [(str(decision), int(count)) for decision, count in rows]

    def decided_requests(self) -> dict[str, str]:
        """Each decided request with its (last) decision."""
        rows = self.query("SELECT request_id, decision FROM inventory_decided ORDER BY decided_at_ms")
        return {str(request): str(decision) for request, decision in rows}

    def last_decision_ms(self) -> int:
        """0 if nothing was decided."""
        return self.number("SELECT max(decided_at_ms) FROM inventory_decided")

    def decisions_of_request(self, request: str | UUID) -> int:
        return self.number("SELECT count(*) FROM inventory_decided WHERE request_id = %s", request)

    def decisions_of_user(self, user: str) -> int:
        return self.number("SELECT count(*) FROM inventory_decided WHERE user_id = %s", user)

    def users_with_two_decisions(self, sale: int, prefix: str) -> int:
        return self.number(
            "SELECT count(*) FROM (SELECT user_id FROM inventory_decided WHERE sale_id = %s AND"
            " starts_with(user_id, %s) GROUP BY user_id HAVING count(*) = 2) AS twice",
            sale, prefix,
        )  # fmt: skip

    def decided_in_new_partitions(self, first: int) -> int:
        return self.number("SELECT count(*) FROM inventory_decided WHERE partition >= %s", first)

    def decided_from_topic(self, topic: str, user_prefix: str = "") -> int:
        """Decisions on requests that inventory read from this topic."""
        return self.number(
            "SELECT count(*) FROM inventory_decided JOIN (SELECT DISTINCT topic, topic_id FROM streams_offset) AS log"
            " USING (topic_id) WHERE topic = %s AND starts_with(user_id, %s)",
            topic, user_prefix,
        )  # fmt: skip

    def redelivered(self, request: str | None = None) -> int:
        """Requests that inventory read again after it had decided them."""
        if request is None:
            return self.number("SELECT count(*) FROM inventory_redelivery")
        return self.number("SELECT count(*) FROM inventory_redelivery WHERE request_id = %s", request)

    def settled_events(self, events: Sequence[str]) -> int:
        return self.number("SELECT count(*) FROM inventory_settled WHERE event_id = ANY(%s::uuid[])", list(events))

    # ── inventory: stock ─────────────────────────────────────────────────────────────────────────

    def sku(self, sale: int) -> str:
        return str(self.query("SELECT sku FROM inventory_stock WHERE sale_id = %s", sale)[0][0])

    def active_units(self, sale: int, user: str | None = None) -> int:
        """Units that buyers hold or have bought."""
        return self.number(
            "SELECT coalesce(sum(quantity), 0) FROM inventory_hold WHERE sale_id = %s AND state <> 'released'"
            " AND user_id = coalesce(%s, user_id)",
            sale, user,
        )  # fmt: skip

    def hold_states(self, sale: int) -> dict[str, set[str]]:
        """The states of the units of each request."""
        states: dict[str, set[str]] = {}
        for request, state in self.query("SELECT request_id, state FROM inventory_hold WHERE sale_id = %s", sale):
            states.setdefault(str(request), set()).add(str(state))
        return states

    def reserved_holds(self) -> int:
        return self.number("SELECT count(*) FROM inventory_hold WHERE state = 'reserved'")

    def sold_holds(self) -> int:
        return self.number("SELECT count(*) FROM inventory_hold WHERE state = 'sold'")

    def ledger_entries(self, sale: int) -> int:
        return self.number(
            "SELECT count(*) FROM inventory_ledger l JOIN inventory_stock s ON s.id = l.stock_id WHERE sale_id = %s",
            sale,
        )

    def gate_epoch(self, sale: int) -> int:
        """How often the counters of this sale were rebuilt in Redis."""
        return self.number("SELECT gate_epoch FROM inventory_stock WHERE sale_id = %s", sale)

    # ── orders and messages ──────────────────────────────────────────────────────────────────────

    def orders(self, state: str | None = None, sale: int | None = None) -> int:
        return self.number(
            "SELECT count(*) FROM orders_order WHERE state = coalesce(%s, state) AND sale_id = coalesce(%s, sale_id)",
            state, sale,
        )  # fmt: skip

    def orders_placed_ms(self, sale: int) -> list[int]:
        """When each order was placed, in ascending order."""
        rows = self.query(
            "SELECT (extract(epoch FROM placed_at) * 1000)::bigint FROM orders_order WHERE sale_id = %s ORDER BY 1",
            sale,
        )
        return [int(at_ms) for (at_ms,) in rows]

    def payment_of(self, order: str) -> str:
        return str(self.query("SELECT id::text FROM orders_payment WHERE order_id = %s", order)[0][0])

    def refunded_payments(self, order: str) -> int:
        return self.number("SELECT count(*) FROM orders_payment WHERE order_id = %s AND state = 'refunded'", order)

    def callbacks_received(self, payment: str) -> int:
        return self.number("SELECT received FROM orders_callback WHERE payment_id = %s", payment)

    def deliveries_due(self) -> int:
        return self.number("SELECT count(*) FROM notifications_delivery WHERE state = 'due'")

    def deliveries_of_events(self, events: Sequence[str]) -> int:
        return self.number("SELECT count(*) FROM notifications_delivery WHERE event_id = ANY(%s::uuid[])", list(events))

    def outcomes(self, *states: str) -> int:
        """Requests whose outcome buyers can see, in these states or in any."""
        if not states:
            return self.number("SELECT count(*) FROM gateway_outcome")
        return self.number("SELECT count(*) FROM gateway_outcome WHERE state = ANY(%s)", list(states))

    # ── messaging ────────────────────────────────────────────────────────────────────────────────

    def slots(self) -> SlotTable:
        """Which partition each slot of users belongs to."""
        [[version, partition_of]] = self.query(
            "SELECT version, partition_of FROM streams_slot_map WHERE topic = %s", PURCHASE_REQUESTS.name
        )
        return SlotTable(version, tuple(partition_of))

    def records_read(self, group: str) -> int:
        """Committed offsets of a group. They are rows of the same transactions as the group's effects, so they count
        committed work only, and still count it after retention has removed the rows."""
        return self.number(
            "SELECT coalesce(sum(next_offset), 0)::bigint FROM streams_offset WHERE consumer_group = %s", group
        )

    def claims(self, group: str) -> dict[tuple[str, int], int]:
        """How often each partition was claimed by a member of this group."""
        rows = self.query("SELECT topic, partition, epoch FROM streams_offset WHERE consumer_group = %s", group)
        return {(topic, partition): epoch for topic, partition, epoch in rows}

    def halted_partitions(self) -> int:
        return self.number("SELECT count(*) FROM streams_offset WHERE halted <> ''")

    def unpublished(self, writer: str) -> int:
        """Events in this service's outbox."""
        return self.number("SELECT count(*) FROM streams_outbox WHERE writer = %s", writer)

    def outbox_events(self, writer: str) -> list[tuple[int, bytes]]:
        rows = self.query("SELECT id, value FROM streams_outbox WHERE writer = %s ORDER BY id", writer)
        return [(int(row), bytes(value)) for row, value in rows]

    def open_dead_letters(self, group: str) -> list[str]:
        """Why each open dead letter of this group was given up."""
        rows = self.query("SELECT reason FROM streams_dead_letter WHERE consumer_group = %s AND state = 'open'", group)
        return [str(reason) for (reason,) in rows]

    def newest_open_dead_letter(self) -> int:
        return self.number("SELECT max(id) FROM streams_dead_letter WHERE state = 'open'")

    def is_replayed(self, letter: int) -> bool:
        return bool(
            self.number("SELECT count(*) FROM streams_dead_letter WHERE id = %s AND state = 'replayed'", letter)
        )

    def dead_letters_of_killer(self, user: str) -> int:
        """Dead letters of this user's requests that were given up because every consumer crashed on them."""
        return self.number(
            "SELECT count(*) FROM streams_dead_letter WHERE reason LIKE %s AND convert_from(key, 'UTF8') = %s",
            f"{CRASHED}%",
            user,
        )

    # ── Postgres itself ──────────────────────────────────────────────────────────────────────────

    def writing_transactions(self) -> int:
        """Open transactions of our services that have written something."""
        return self.number(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND application_name = 'seckill'"
        )

    def idle_writing_sessions(self) -> list[int]:
        """Sessions whose open transaction has written something and waits for its client."""
        rows = self.query(
            "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' AND backend_xid IS NOT NULL"
        )
        return [int(pid) for (pid,) in rows]

    def sessions_left(self, sessions: Sequence[int]) -> int:
        return self.number("SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s)", list(sessions))

    def deadlocks(self) -> int:
        return self.number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
