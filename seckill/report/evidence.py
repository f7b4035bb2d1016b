"""Values: all evidence of a run in one object, with the indexes that the checks use."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from seckill.messaging.topics import REQUEST_TOPICS
from seckill.report.evidence_sources import Source, SourceStatus
from seckill.report.identity import Id
from seckill.report.rows import (
    Attempt,
    Callback,
    ConsumedDecision,
    DeadLetter,
    Decision,
    DecisionEvent,
    Delivery,
    GateState,
    GroupOffset,
    Hold,
    LedgerEntry,
    OperatorAction,
    Order,
    OrderEvent,
    OtherCall,
    Outcome,
    PartitionLog,
    Payment,
    Poll,
    ProviderLine,
    RecordPosition,
    Redelivery,
    RequestRecord,
    Sale,
    Settlement,
    Silence,
    SinkLine,
    Stock,
    Transition,
    Unreadable,
)
from seckill.report.spark_counts import SparkCount, SparkCut


@dataclass(frozen=True)
class Evidence:
    """Immutable: the selftest corrupts copies of it. Each copy builds its indexes once."""

    sources: dict[Source, SourceStatus]
    taken_at_ms: int
    declared_off: frozenset[Source] = frozenset()
    planned_faults: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()  # why the run has not drained; empty if it has
    crowd_sales: frozenset[int] = frozenset()
    runs: tuple[dict[str, Any], ...] = ()  # as the manifest declares them

    attempts: list[Attempt] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    other_calls: list[OtherCall] = field(default_factory=list)
    partition_logs: list[PartitionLog] = field(default_factory=list)
    requests: list[RequestRecord] = field(default_factory=list)
    decision_events: list[DecisionEvent] = field(default_factory=list)
    order_events: list[OrderEvent] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    committed_offsets: list[GroupOffset] = field(default_factory=list)  # in the broker
    gates: list[GateState] = field(default_factory=list)

    sales: list[Sale] = field(default_factory=list)
    stocks: list[Stock] = field(default_factory=list)
    ledger: list[LedgerEntry] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    redeliveries: list[Redelivery] = field(default_factory=list)
    settlements: list[Settlement] = field(default_factory=list)
    gate_releases_due: list[Id] = field(default_factory=list)  # requests
    orders: list[Order] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    consumed_decisions: list[ConsumedDecision] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)
    orphan_payments: list[Id] = field(default_factory=list)  # captured without a payment of ours; must be refunded
    callbacks: list[Callback] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    group_offsets: list[GroupOffset] = field(default_factory=list)  # in the database, the ones that count
    unpublished: dict[str, int] = field(default_factory=dict)  # events in the outbox, by writer
    dead_letters: list[DeadLetter] = field(default_factory=list)
    operator_actions: list[OperatorAction] = field(default_factory=list)
    partition_takeovers: int = 0  # a consumer took over a partition and resumed at the offset in its row

    provider_lines: list[ProviderLine] = field(default_factory=list)
    sink_lines: list[SinkLine] = field(default_factory=list)
    injected_faults: list[dict[str, Any]] = field(default_factory=list)
    process_events: list[dict[str, Any]] = field(default_factory=list)  # from the supervisor, planned or not
    silences: list[Silence] = field(default_factory=list)  # from the report service, planned or not
    spark_counts: list[SparkCount] = field(default_factory=list)
    spark_cuts: list[SparkCut] = field(default_factory=list)

    @cached_property
    def entries_by_stock(self) -> dict[int, list[LedgerEntry]]:
        """Ledger entries in order of version."""
        found: dict[int, list[LedgerEntry]] = defaultdict(list)
        for entry in self.ledger:
            found[entry.stock_id].append(entry)
        for entries in found.values():
            entries.sort(key=lambda entry: entry.version)
        return found

    @cached_property
    def entries_by_request(self) -> dict[Id, list[LedgerEntry]]:
        """Ledger entries in order of version."""
        found: dict[Id, list[LedgerEntry]] = defaultdict(list)
        for entries in self.entries_by_stock.values():
            for entry in entries:
                if entry.request_id is not None:
                    found[entry.request_id].append(entry)
        return found

    @cached_property
    def decision_by_request(self) -> dict[Id, Decision]:
        return {row.request_id: row for row in self.decisions}

    @cached_property
    def order_by_request(self) -> dict[Id, Order]:
        return {order.request_id: order for order in self.orders}

    @cached_property
    def order_by_id(self) -> dict[Id, Order]:
        return {order.id: order for order in self.orders}

    @cached_property
    def first_request_by_id(self) -> dict[Id, RequestRecord]:
        """The earliest record of each request. A retry may have appended the request again."""
        first: dict[Id, RequestRecord] = {}
        for record in self.requests:
            known = first.get(record.request_id)
            if known is None or record.arrival < known.arrival:
                first[record.request_id] = record
        return first

    @cached_property
    def request_by_position(self) -> dict[RecordPosition, RequestRecord]:
        return {record.position: record for record in self.requests}

    @cached_property
    def dead_request_by_position(self) -> dict[RecordPosition, DeadLetter]:
        """Requests that inventory put among the dead letters instead of deciding them."""
        return {
            letter.position: letter
            for letter in self.dead_letters
            if letter.group == "inventory" and letter.topic in REQUEST_TOPICS
        }

    def was_dead_lettered(self, request: Id) -> bool:
        """Whether the first record of the request became a dead letter, so any decision on it came out of order."""
        record = self.first_request_by_id.get(request)
        return record is not None and record.position in self.dead_request_by_position
