"""A small passing run, built by hand: three units, and buyers who pay, cancel, come too late or order twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID, uuid5

from seckill.report import rows
from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source, SourceStatus
from seckill.report.identity import Id, identity
from seckill.report.rows import CHANNELS, NOTIFIED_EVENTS, REFUSALS, RecordPosition

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
    """Each method is something that happens. It writes the rows and records that the services would write."""

    now_ms: int = 2_000
    version: int = 1
    available: int = UNITS
    reserved: int = 0
    sold: int = 0
    ends: dict[str, int] = field(default_factory=lambda: {REQUESTS: 0, DECISIONS: 0, ORDERS: 0})
    evidence: Evidence = field(default_factory=lambda: Evidence({}, TAKEN_MS, frozenset({Source.STATISTICS})))

    def __post_init__(self) -> None:
        declared = rows.LedgerEntry(STOCK, 1, "supply", "available", UNITS, "declare", name("declare"), None, OPENS_MS)
        self.evidence.ledger.append(declared)

    def _tick(self) -> int:
        self.now_ms += 10
        return self.now_ms

    def _append(self, topic: str) -> RecordPosition:
        self.ends[topic] += 1
        return RecordPosition(topic, 0, self.ends[topic] - 1)

    def send_request(self, user: str, key: str = "first") -> Id:
        """The request is sent, acknowledged and in the log."""
        request = name(user, key)
        place, at_ms = self._append(REQUESTS), self._tick()
        ticket = name("ticket", user, key)[:12]
        self.evidence.other_calls.append(
            rows.OtherCall(at_ms - 5, 4, "ticket", user, SALE, None, 201, "", ticket, at_ms + 120_000)
        )
        self.evidence.attempts.append(
            rows.Attempt(
                at_ms,
                5,
                user,
                key,
                SALE,
                1,
                202,
                request,
                0,
                place.offset,
                REQUESTS,
                "",
                ticket,
                f"10.0.0.{len(user)}",
            )
        )
        self.evidence.requests.append(
            rows.RequestRecord(place, at_ms, request, user, SALE, SKU, 1, at_ms, at_ms + 60_000)
        )
        return request

    def decide(self, request: Id, decision: str, *, is_ordered: bool = True) -> None:
        record = next(record for record in self.evidence.requests if record.request_id == request)
        at_ms = self._tick()
        if decision == "RESERVED":
            self._post("reserve", "available", "reserved", request, request)
            self.evidence.holds.append(rows.Hold(request, STOCK, SALE, record.user_id, 1, "reserved", record.position))
        self.evidence.decisions.append(
            rows.Decision(
                request, record.user_id, SALE, SKU, 1, decision, self.version, at_ms, record.admitted_at_ms,
                record.deadline_ms, record.position,
            )
        )  # fmt: skip
        event = name("decided", request)
        self._say_decision(event, request, record.user_id, decision, at_ms)
        self.evidence.consumed_decisions.append(rows.ConsumedDecision(event, request, decision))
        if decision == "RESERVED" and is_ordered:
            self._place(request, record.user_id)
        elif decision in REFUSALS:
            self._show(request, record.user_id, decision)

    def retry(self, request: Id) -> None:
        """The buyer sends the same request again with the same key."""
        record = next(record for record in self.evidence.requests if record.request_id == request)
        place = self._append(REQUESTS)
        self.evidence.requests.append(record._replace(position=place, timestamp_ms=self._tick()))
        self.evidence.redeliveries.append(rows.Redelivery(request, place))

    def pay(self, request: Id) -> None:
        order = self.evidence.order_by_request[request]
        payment = name("payment", request)
        self.evidence.payments.append(rows.Payment(payment, order.id, PRICE, "captured", True, False, self._tick()))
        for what in ("opened", "captured"):
            self.evidence.provider_lines.append(rows.ProviderLine(self._tick(), what, payment, PRICE, order.id))
        self.evidence.callbacks.append(rows.Callback(f"cb-{payment}-captured", payment, "captured"))
        self.evidence.other_calls.append(rows.OtherCall(self.now_ms, 5, "pay", order.user_id, None, order.id, 202))
        event = self._move(request, "PAID", "OrderPaid")
        self._post("sell", "reserved", "sold", event, request)
        self._end_hold(request, "sold")
        self._settle(event, "OrderPaid", request)
        self._show(request, order.user_id, "PAID")

    def cancel(self, request: Id) -> None:
        """The buyer had opened the payment page before."""
        order = self.evidence.order_by_request[request]
        payment = name("payment", request)
        self.evidence.payments.append(rows.Payment(payment, order.id, PRICE, "voided", False, False, self._tick()))
        for what in ("opened", "voided"):
            self.evidence.provider_lines.append(rows.ProviderLine(self._tick(), what, payment, PRICE, order.id))
        event = self._move(request, "CANCELLED", "OrderCancelled")
        self._post("release", "reserved", "available", event, request)
        self._end_hold(request, "released")
        self._settle(event, "OrderCancelled", request)
        self.evidence.other_calls.append(rows.OtherCall(self.now_ms, 5, "cancel", order.user_id, None, order.id, 202))
        self._say_release(event, request, order.user_id, "cancelled")
        self._show(request, order.user_id, "CANCELLED", may_buy_again=True)

    def give_up(self, request: Id) -> None:
        """The decision became a dead letter of orders, which an operator discarded."""
        record = next(record for record in self.evidence.decision_events if record.request_id == request)
        letter = rows.DeadLetter("orders", DECISIONS, record.position, "discarded", "", self._tick())
        self.evidence.dead_letters.append(letter)
        at_ms = self._tick()
        made = rows.Order(
            name("order", request), request, record.user_id, SALE, 1, 0, "NOT_PLACED", at_ms + 10, at_ms, SKU,
            record.event_id, self.evidence.decision_by_request[request].position,
        )  # fmt: skip
        self.evidence.orders.append(made)
        event = self._announce(made, "", "NOT_PLACED", "OrderNotPlaced")
        self._post("release", "reserved", "available", event, request)
        self._end_hold(request, "released")
        self._settle(event, "OrderNotPlaced", request)
        self._say_release(event, request, record.user_id, "not placed")
        self._show(request, record.user_id, "NOT_PLACED", may_buy_again=True)

    def poll(self, request: Id, state: str) -> None:
        user = next(record.user_id for record in self.evidence.requests if record.request_id == request)
        order = self.evidence.order_by_request.get(request)
        self.evidence.polls.append(
            rows.Poll(self._tick(), 1, user, request, 200, state, False, None if order is None else order.id)
        )

    # ── what follows ─────────────────────────────────────────────────────────────────────────────

    def _place(self, request: Id, user: str) -> None:
        order, at_ms = name("order", request), self._tick()
        made = rows.Order(
            order, request, user, SALE, 1, PRICE, "PENDING_PAYMENT", at_ms + 10, TAKEN_MS + 60_000, SKU,
            name("decided", request), self._place_of(request),
        )  # fmt: skip
        self.evidence.orders.append(made)
        self.evidence.__dict__.pop("order_by_request", None)
        self._announce(made, "", "PENDING_PAYMENT", "OrderPlaced")
        self._settle(name("PENDING_PAYMENT", request), "OrderPlaced", request)
        self._show(request, user, "AWAITING_PAYMENT")

    def _move(self, request: Id, state: str, event: str) -> Id:
        order = self.evidence.order_by_request[request]
        moved = order._replace(state=state)
        self.evidence.orders[self.evidence.orders.index(order)] = moved
        self.evidence.__dict__.pop("order_by_request", None)
        return self._announce(moved, "PENDING_PAYMENT", state, event)

    def _announce(self, order: rows.Order, before: str, after: str, event: str) -> Id:
        event_id = name(after, order.request_id)
        at_ms = self._tick()
        self.evidence.transitions.append(rows.Transition(order.id, before, after, event_id, at_ms))
        self.evidence.order_events.append(
            rows.OrderEvent(
                self._append(ORDERS), self._tick(), event_id, event, order.id, order.request_id, order.user_id, SALE,
                SKU, 1, order.amount, at_ms, order.pay_before_ms, 0, order.cause, order.origin,
            )
        )  # fmt: skip
        text = f"{event} {order.id[:8]}"
        for channel in CHANNELS if event in NOTIFIED_EVENTS else ():
            self.evidence.deliveries.append(
                rows.Delivery(event_id, channel, order.user_id, "done", 1, self._tick(), text)
            )
            self.evidence.sink_lines.append(
                rows.SinkLine(self._tick(), "effect", event_id, channel, order.user_id, "", text)
            )
        return event_id

    def _place_of(self, request: Id) -> RecordPosition:
        return next(record.position for record in self.evidence.requests if record.request_id == request)

    def _say_decision(self, event: Id, request: Id, user: str, decision: str, at_ms: int) -> None:
        record = rows.DecisionEvent(
            self._append(DECISIONS), self._tick(), event, request, user, decision, 1, SALE, SKU, PRICE, self.version,
            at_ms, "", request, self._place_of(request),
        )  # fmt: skip
        self.evidence.decision_events.append(record)

    def _say_release(self, cause: Id, request: Id, user: str, reason: str) -> None:
        record = rows.DecisionEvent(
            self._append(DECISIONS), self._tick(), name("released", request), request, user, "UnitsReleased", 1, SALE,
            SKU, None, self.version, None, reason, cause, self._place_of(request),
        )  # fmt: skip
        self.evidence.decision_events.append(record)

    def _post(self, kind: str, debit: str, credit: str, cause: Id, request: Id) -> None:
        self.version += 1
        setattr(self, debit, getattr(self, debit) - 1)
        setattr(self, credit, getattr(self, credit) + 1)
        entry = rows.LedgerEntry(STOCK, self.version, debit, credit, 1, kind, cause, request, self._tick())
        self.evidence.ledger.append(entry)

    def _settle(self, event: Id, kind: str, request: Id) -> None:
        self.evidence.settlements.append(rows.Settlement(event, kind, request, kind != "OrderPlaced"))

    def _end_hold(self, request: Id, state: str) -> None:
        held = next(hold for hold in self.evidence.holds if hold.request_id == request)
        self.evidence.holds[self.evidence.holds.index(held)] = held._replace(state=state)

    def _show(self, request: Id, user: str, state: str, *, may_buy_again: bool = False) -> None:
        order = self.evidence.order_by_request.get(request)
        self.evidence.__dict__.pop("order_by_request", None)
        others = [outcome for outcome in self.evidence.outcomes if outcome.request_id != request]
        outcome = rows.Outcome(
            request, user, state, order and order.id, SALE, order and order.pay_before_ms, may_buy_again
        )
        self.evidence.outcomes[:] = [*others, outcome]

    def finish(self) -> Evidence:
        """The evidence of the run after every group has read everything."""
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
        found.operator_actions.append(rows.OperatorAction(OPENS_MS - 10, "switch on", "notify.sms", {}, "done"))
        found.operator_actions.append(rows.OperatorAction(OPENS_MS, "sale create", f"Gong {SKU}", created, "done"))
        granted = {hold.request_id: hold.quantity for hold in found.holds if hold.is_active}
        found.gates.append(rows.GateState(STOCK, self.available, granted))
        for topic, end in self.ends.items():
            found.partition_logs.append(rows.PartitionLog(topic, 0, 0, end, end))
            for group in READERS[topic]:
                found.group_offsets.append(rows.GroupOffset(group, topic, 0, end))
                found.committed_offsets.append(rows.GroupOffset(group, topic, 0, end))
        sources = {source: SourceStatus(source, {"rows": 1}) for source in Source}
        sources[Source.STATISTICS] = SourceStatus(Source.STATISTICS, {})
        # A copy without the indexes that were built on the way.
        fields = {key: value for key, value in vars(found).items() if key in Evidence.__dataclass_fields__}
        return Evidence(**{**fields, "sources": sources, "crowd_sales": frozenset({SALE})})


def good_run() -> Evidence:
    run = Run()
    anna, bert, carl = run.send_request("anna"), run.send_request("bert"), run.send_request("carl")
    for request in (anna, bert, carl):
        run.decide(request, "RESERVED")
    run.retry(anna)
    dora = run.send_request("dora")
    run.poll(dora, "QUEUED")
    run.decide(dora, "SOLD_OUT")
    second = run.send_request("anna", "second")
    run.decide(second, "DUPLICATE")
    run.poll(anna, "AWAITING_PAYMENT")
    run.pay(anna)
    run.pay(bert)
    run.cancel(carl)
    for request, state in ((anna, "PAID"), (carl, "CANCELLED"), (dora, "SOLD_OUT"), (second, "DUPLICATE")):
        run.poll(request, state)
    return run.finish()
