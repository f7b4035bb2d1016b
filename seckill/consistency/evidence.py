"""Values: everything the report rests on in one place, with indexes over it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from seckill.consistency.counted import Counted, CountedTo
from seckill.consistency.identity import Id
from seckill.consistency.rows import (
    Attempt,
    Callback,
    Called,
    DeadLetter,
    Decided,
    DecisionSaid,
    Delivery,
    Entry,
    Gate,
    GroupOffset,
    Hold,
    Log,
    Order,
    OrderSaid,
    Outcome,
    Payment,
    Place,
    ProviderLine,
    ReadDecision,
    Redelivered,
    Requested,
    Sale,
    Settled,
    Sight,
    SinkLine,
    Source,
    Stock,
    Transition,
    Unreadable,
    Verb,
)
from seckill.topics import QUEUES


@dataclass(frozen=True)
class Evidence:
    """All of it. Corruptions make copies; indexes are made once for each copy."""

    sources: dict[str, Source]
    taken_at_ms: int
    off: frozenset[str] = frozenset()  # sources the manifest declares off
    faults_planned: tuple[str, ...] = ()
    under_way: tuple[str, ...] = ()  # why the run has not drained; empty: it has
    crowd_sales: frozenset[int] = frozenset()
    runs: tuple[dict[str, Any], ...] = ()  # as the manifest declares them

    attempts: list[Attempt] = field(default_factory=list)
    sights: list[Sight] = field(default_factory=list)
    called: list[Called] = field(default_factory=list)
    logs: list[Log] = field(default_factory=list)
    requested: list[Requested] = field(default_factory=list)
    decisions_said: list[DecisionSaid] = field(default_factory=list)
    orders_said: list[OrderSaid] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    committed: list[GroupOffset] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)

    sales: list[Sale] = field(default_factory=list)
    stocks: list[Stock] = field(default_factory=list)
    ledger: list[Entry] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)
    redelivered: list[Redelivered] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    gate_owed: list[Id] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    decisions_read: list[ReadDecision] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)
    orphans: list[Id] = field(default_factory=list)  # payments of nobody's, whose money is to go back
    callbacks: list[Callback] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    offsets: list[GroupOffset] = field(default_factory=list)
    outbox: dict[str, int] = field(default_factory=dict)  # unpublished events by writer
    dead: list[DeadLetter] = field(default_factory=list)
    verbs: list[Verb] = field(default_factory=list)  # of operators
    claimed_again: int = 0  # times a partition was taken over, and read again from where its row stood

    provider: list[ProviderLine] = field(default_factory=list)
    sink: list[SinkLine] = field(default_factory=list)
    injected: list[dict[str, Any]] = field(default_factory=list)
    observed: list[dict[str, Any]] = field(default_factory=list)  # by the stack's supervisor, planned or not
    counted: list[Counted] = field(default_factory=list)
    counted_to: list[CountedTo] = field(default_factory=list)

    @cached_property
    def entries(self) -> dict[int, list[Entry]]:
        """The ledger of each stock, by version."""
        found: dict[int, list[Entry]] = defaultdict(list)
        for entry in self.ledger:
            found[entry.stock_id].append(entry)
        for entries in found.values():
            entries.sort(key=lambda entry: entry.version)
        return found

    @cached_property
    def entries_of(self) -> dict[Id, list[Entry]]:
        """The ledger of each request, by version."""
        found: dict[Id, list[Entry]] = defaultdict(list)
        for entries in self.entries.values():
            for entry in entries:
                if entry.request_id is not None:
                    found[entry.request_id].append(entry)
        return found

    @cached_property
    def decision_of(self) -> dict[Id, Decided]:
        return {row.request_id: row for row in self.decided}

    @cached_property
    def order_of(self) -> dict[Id, Order]:
        """By request."""
        return {order.request_id: order for order in self.orders}

    @cached_property
    def order_by_id(self) -> dict[Id, Order]:
        return {order.id: order for order in self.orders}

    @cached_property
    def first_requested(self) -> dict[Id, Requested]:
        """The first time each request stands in the log."""
        first: dict[Id, Requested] = {}
        for said in self.requested:
            known = first.get(said.request_id)
            if known is None or said.came < known.came:
                first[said.request_id] = said
        return first

    @cached_property
    def requested_at(self) -> dict[Place, Requested]:
        return {said.place: said for said in self.requested}

    @cached_property
    def dead_requests(self) -> dict[Place, DeadLetter]:
        """Requests under examination: dead-lettered, not decided."""
        return {letter.place: letter for letter in self.dead if letter.group == "inventory" and letter.topic in QUEUES}

    def was_examined(self, request: Id) -> bool:
        """Was it a dead letter where it first stands? Then it was decided out of turn, if at all."""
        said = self.first_requested.get(request)
        return said is not None and said.place in self.dead_requests
