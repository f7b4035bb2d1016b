"""A small run in which all is well, made by hand: three units, buyers who pay, cancel, come too late, or ask twice."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from uuid import UUID, uuid5

from seckill.consistency import rows
from seckill.consistency.counted import Counted, CountedTo
from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id, identity
from seckill.consistency.rows import CHANNELS, REFUSALS, TOLD, Place, Source

SPACE = UUID("600d0000-0000-4000-8000-000000000000")
SALE, STOCK, SKU, PRICE, UNITS = 1, 1, "phone", 100, 3
OPENS_MS, CLOSES_MS, TAKEN_MS = 1_000, 1_000_000, 900_000
REQUESTS, DECISIONS, ORDERS = "purchase.requests", "inventory.decisions", "order.events"
READERS = {
    REQUESTS: ("inventory",),
    DECISIONS: ("orders", "gateway.outcomes"),
    ORDERS: ("inventory.settlement", "gateway.outcomes", "notify.sms", "notify.email", "notify.push"),
}


def name(*parts: object) -> Id:
    return identity(str(uuid5(SPACE, " ".join(map(str, parts)))))


@dataclass
class Run:
    """Each verb is a thing that happens, and writes what the services would."""

    now_ms: int = 2_000
    version: int = 1
    available: int = UNITS
    reserved: int = 0
    sold: int = 0
    ends: dict[str, int] = field(default_factory=lambda: {REQUESTS: 0, DECISIONS: 0, ORDERS: 0})
    evidence: Evidence = field(default_factory=lambda: Evidence({}, TAKEN_MS, frozenset("S")))

    def __post_init__(self) -> None:
        declared = rows.Entry(STOCK, 1, "supply", "available", UNITS, "declare", name("declare"), None, OPENS_MS)
        self.evidence.ledger.append(declared)

    def _tick(self) -> int:
        self.now_ms += 10
        return self.now_ms

    def _append(self, topic: str) -> Place:
        self.ends[topic] += 1
        return Place(0, self.ends[topic] - 1)

    def asks(self, user: str, key: str = "first") -> Id:
        """Sent, acknowledged, in the log."""
        request = name(user, key)
        place, at_ms = self._append(REQUESTS), self._tick()
        ticket = name("ticket", user, key)[:12]
        self.evidence.called.append(
            rows.Called(at_ms - 5, 4, "ticket", user, SALE, None, 201, "", ticket, at_ms + 120_000)
        )
        self.evidence.attempts.append(
            rows.Attempt(at_ms, 5, user, key, SALE, 1, 202, request, *place, "", ticket, f"10.0.0.{len(user)}")
        )
        self.evidence.requested.append(rows.Requested(place, at_ms, request, user, SALE, SKU, 1, at_ms, at_ms + 60_000))
        return request

    def decide(self, request: Id, decision: str, *, is_ordered: bool = True) -> None:
        said = next(said for said in self.evidence.requested if said.request_id == request)
        at_ms = self._tick()
        if decision == "RESERVED":
            self._post("reserve", "available", "reserved", request, request)
            self.evidence.holds.append(rows.Hold(request, STOCK, SALE, said.user_id, 1, "reserved", said.place))
        self.evidence.decided.append(
            rows.Decided(
                request, said.user_id, SALE, SKU, 1, decision, self.version, at_ms, said.admitted_at_ms,
                said.deadline_ms, said.place,
            )
        )  # fmt: skip
        event = name("decided", request)
        self._say_decision(event, request, said.user_id, decision, at_ms)
        self.evidence.decisions_read.append(rows.ReadDecision(event, request, decision))
        if decision == "RESERVED" and is_ordered:
            self._place(request, said.user_id)
        elif decision in REFUSALS:
            self._show(request, said.user_id, decision)

    def again(self, request: Id) -> None:
        """The same request once more, under its key."""
        said = next(said for said in self.evidence.requested if said.request_id == request)
        place = self._append(REQUESTS)
        self.evidence.requested.append(said._replace(place=place, timestamp_ms=self._tick()))
        self.evidence.redelivered.append(rows.Redelivered(request, place))

    def pays(self, request: Id) -> None:
        order = self.evidence.order_of[request]
        payment = name("payment", request)
        self.evidence.payments.append(rows.Payment(payment, order.id, PRICE, "captured", True, False, self._tick()))
        for what in ("opened", "captured"):
            self.evidence.provider.append(rows.ProviderLine(self._tick(), what, payment, PRICE, order.id))
        self.evidence.callbacks.append(rows.Callback(f"cb-{payment}-captured", payment, "captured"))
        self.evidence.called.append(rows.Called(self.now_ms, 5, "pay", order.user_id, None, order.id, 202))
        event = self._move(request, "PAID", "OrderPaid")
        self._post("sell", "reserved", "sold", event, request)
        self._end_hold(request, "sold")
        self._settle(event, "OrderPaid", request)
        self._show(request, order.user_id, "PAID")

    def cancels(self, request: Id) -> None:
        order = self.evidence.order_of[request]
        event = self._move(request, "CANCELLED", "OrderCancelled")
        self._post("release", "reserved", "available", event, request)
        self._end_hold(request, "released")
        self._settle(event, "OrderCancelled", request)
        self.evidence.called.append(rows.Called(self.now_ms, 5, "cancel", order.user_id, None, order.id, 202))
        self._say_release(event, request, order.user_id, "cancelled")
        self._show(request, order.user_id, "CANCELLED", may_buy_again=True)

    def is_given_up(self, request: Id) -> None:
        """Orders could not work on its decision, and the dead letter was discarded."""
        said = next(said for said in self.evidence.decisions_said if said.request_id == request)
        letter = rows.DeadLetter(
            "orders", DECISIONS, said.place._replace(topic=DECISIONS), "discarded", "", self._tick()
        )
        self.evidence.dead.append(letter)
        at_ms = self._tick()
        made = rows.Order(
            name("order", request), request, said.user_id, SALE, 1, 0, "NOT_PLACED", at_ms + 10, at_ms, SKU,
            said.event_id, self.evidence.decision_of[request].place,
        )  # fmt: skip
        self.evidence.orders.append(made)
        event = self._announce(made, "", "NOT_PLACED", "OrderNotPlaced")
        self._post("release", "reserved", "available", event, request)
        self._end_hold(request, "released")
        self._settle(event, "OrderNotPlaced", request)
        self._say_release(event, request, said.user_id, "not placed")
        self._show(request, said.user_id, "NOT_PLACED", may_buy_again=True)

    def sees(self, request: Id, state: str) -> None:
        user = next(said.user_id for said in self.evidence.requested if said.request_id == request)
        order = self.evidence.order_of.get(request)
        self.evidence.sights.append(
            rows.Sight(self._tick(), 1, user, request, 200, state, False, None if order is None else order.id)
        )

    # ── what follows ─────────────────────────────────────────────────────────────────────────────

    def _place(self, request: Id, user: str) -> None:
        order, at_ms = name("order", request), self._tick()
        made = rows.Order(
            order, request, user, SALE, 1, PRICE, "PENDING_PAYMENT", at_ms + 10, TAKEN_MS + 60_000, SKU,
            name("decided", request), self._place_of(request),
        )  # fmt: skip
        self.evidence.orders.append(made)
        self.evidence.__dict__.pop("order_of", None)
        self._announce(made, "", "PENDING_PAYMENT", "OrderPlaced")
        self._settle(name("PENDING_PAYMENT", request), "OrderPlaced", request)
        self._show(request, user, "AWAITING_PAYMENT")

    def _move(self, request: Id, state: str, event: str) -> Id:
        order = self.evidence.order_of[request]
        moved = order._replace(state=state)
        self.evidence.orders[self.evidence.orders.index(order)] = moved
        self.evidence.__dict__.pop("order_of", None)
        return self._announce(moved, "PENDING_PAYMENT", state, event)

    def _announce(self, order: rows.Order, before: str, after: str, event: str) -> Id:
        event_id = name(after, order.request_id)
        at_ms = self._tick()
        self.evidence.transitions.append(rows.Transition(order.id, before, after, event_id, at_ms))
        self.evidence.orders_said.append(
            rows.OrderSaid(
                self._append(ORDERS), self._tick(), event_id, event, order.id, order.request_id, order.user_id, SALE,
                SKU, 1, order.amount, at_ms, order.pay_before_ms, 0, order.cause, order.origin,
            )
        )  # fmt: skip
        text = f"{event} {order.id[:8]}"
        for channel in CHANNELS if event in TOLD else ():
            self.evidence.deliveries.append(
                rows.Delivery(event_id, channel, order.user_id, "done", 1, self._tick(), text)
            )
            self.evidence.sink.append(rows.SinkLine(self._tick(), "effect", event_id, channel, order.user_id, "", text))
        return event_id

    def _place_of(self, request: Id) -> Place:
        return next(said.place for said in self.evidence.requested if said.request_id == request)

    def _say_decision(self, event: Id, request: Id, user: str, decision: str, at_ms: int) -> None:
        said = rows.DecisionSaid(
            self._append(DECISIONS), self._tick(), event, request, user, decision, 1, SALE, SKU, PRICE, self.version,
            at_ms, "", request, self._place_of(request),
        )  # fmt: skip
        self.evidence.decisions_said.append(said)

    def _say_release(self, cause: Id, request: Id, user: str, reason: str) -> None:
        said = rows.DecisionSaid(
            self._append(DECISIONS), self._tick(), name("released", request), request, user, "UnitsReleased", 1, SALE,
            SKU, None, self.version, None, reason, cause, self._place_of(request),
        )  # fmt: skip
        self.evidence.decisions_said.append(said)

    def _post(self, kind: str, debit: str, credit: str, cause: Id, request: Id) -> None:
        self.version += 1
        setattr(self, debit, getattr(self, debit) - 1)
        setattr(self, credit, getattr(self, credit) + 1)
        entry = rows.Entry(STOCK, self.version, debit, credit, 1, kind, cause, request, self._tick())
        self.evidence.ledger.append(entry)

    def _settle(self, event: Id, kind: str, request: Id) -> None:
        self.evidence.settled.append(rows.Settled(event, kind, request, kind != "OrderPlaced"))

    def _end_hold(self, request: Id, state: str) -> None:
        held = next(hold for hold in self.evidence.holds if hold.request_id == request)
        self.evidence.holds[self.evidence.holds.index(held)] = held._replace(state=state)

    def _show(self, request: Id, user: str, state: str, *, may_buy_again: bool = False) -> None:
        order = self.evidence.order_of.get(request)
        self.evidence.__dict__.pop("order_of", None)
        others = [outcome for outcome in self.evidence.outcomes if outcome.request_id != request]
        outcome = rows.Outcome(
            request, user, state, order and order.id, SALE, order and order.pay_before_ms, may_buy_again
        )
        self.evidence.outcomes[:] = [*others, outcome]

    def end(self) -> Evidence:
        """The books are closed: rows as they stand, logs as they end, everybody has read everything."""
        found = self.evidence
        found.sales.append(rows.Sale(SALE, "open", OPENS_MS, CLOSES_MS))
        found.stocks.append(
            rows.Stock(STOCK, SALE, SKU, UNITS, self.available, self.reserved, self.sold, self.version, 1, PRICE, 1)
        )
        created: dict[str, object] = {
            "units": UNITS,
            "unit_price": PRICE,
            "cap": 1,
            "opens_at_ms": OPENS_MS,
            "closes_at_ms": CLOSES_MS,
        }
        found.verbs.append(rows.Verb(OPENS_MS - 10, "switch on", "notify.sms", {}, "done"))
        found.verbs.append(rows.Verb(OPENS_MS, "sale create", f"Gong {SKU}", created, "done"))
        granted = {hold.request_id: hold.quantity for hold in found.holds if hold.is_active}
        found.gates.append(rows.Gate(STOCK, self.available, granted))
        for topic, end in self.ends.items():
            found.logs.append(rows.Log(topic, 0, 0, end, end))
            for group in READERS[topic]:
                found.offsets.append(rows.GroupOffset(group, topic, 0, end))
                found.committed.append(rows.GroupOffset(group, topic, 0, end))
        sources = {letter: Source(letter, {"rows": 1}) for letter in "CKRLOPNGF"} | {"S": Source("S", {})}
        # A copy without the indexes that were made on the way.
        fields = {key: value for key, value in vars(found).items() if key in Evidence.__dataclass_fields__}
        return Evidence(**{**fields, "sources": sources, "crowd_sales": frozenset({SALE})})


def good_run() -> Evidence:
    run = Run()
    anna, bert, carl = run.asks("anna"), run.asks("bert"), run.asks("carl")
    for request in (anna, bert, carl):
        run.decide(request, "RESERVED")
    run.again(anna)
    dora = run.asks("dora")
    run.sees(dora, "QUEUED")
    run.decide(dora, "SOLD_OUT")
    second = run.asks("anna", "second")
    run.decide(second, "DUPLICATE")
    run.sees(anna, "AWAITING_PAYMENT")
    run.pays(anna)
    run.pays(bert)
    run.cancels(carl)
    for request, state in ((anna, "PAID"), (carl, "CANCELLED"), (dora, "SOLD_OUT"), (second, "DUPLICATE")):
        run.sees(request, state)
    return run.end()


def counted(evidence: Evidence, run: str = "replay") -> Evidence:
    """The same run with the tables that Spark would make of its topics."""
    ids: dict[tuple[str, int, str], set[Id]] = defaultdict(set)
    for said in evidence.requested:
        ids["purchase.requests", said.place.partition, "PurchaseRequested"].add(said.request_id)
    for decision in evidence.decisions_said:
        ids["inventory.decisions", decision.place.partition, decision.decision].add(decision.event_id)
    for change in evidence.orders_said:
        ids["order.events", change.place.partition, change.event].add(change.event_id)
    amounts = {change.event_id: change.amount or 0 for change in evidence.orders_said}
    totals = [
        Counted(run, *key, len(found), len(found), sum(amounts.get(event, 0) for event in found))
        for key, found in ids.items()
    ]
    cuts = [CountedTo(run, log.topic, log.partition, log.start, log.cut, log.records) for log in evidence.logs]
    sources = evidence.sources | {"S": Source("S", {"counted": len(totals), "counted_to": len(cuts)})}
    return replace(evidence, sources=sources, off=frozenset(), counted=totals, counted_to=cuts)
