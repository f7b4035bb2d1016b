"""Corruptions of prices, events, owners, messages and clocks: what agrees with itself and is not true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
from seckill.consistency.rows import Order, OrderSaid, Requested
from seckill.consistency.selftest.spoiling import (
    NoMaterial,
    changed,
    corruption,
    first,
    instead,
    kept,
    last,
    stranger,
)
from seckill.consistency.verdicts import Verdict

HOUR_MS = 3_600_000


def _order(evidence: Evidence, state: str = "PAID") -> Order:
    return first(evidence.orders, lambda order: order.state == state and order.amount > 0)


def _said(evidence: Evidence, event: str) -> OrderSaid:
    return first(evidence.orders_said, lambda said: said.event == event)


def _without_event(evidence: Evidence, event: Id) -> Evidence:
    """The event never got into the topic, so nothing that rests on it happened either."""
    return replace(
        evidence,
        orders_said=kept(evidence.orders_said, lambda said: said.event_id == event),
        settled=kept(evidence.settled, lambda row: row.event_id == event),
        deliveries=kept(evidence.deliveries, lambda row: row.event_id == event),
        sink=kept(evidence.sink, lambda line: line.event_id == event),
    )


# ── I25: prices ──────────────────────────────────────────────────────────────────────────────────


@corruption("I25", "half the price is charged, from the decision to the provider")
def half_price(evidence: Evidence) -> Evidence:
    order = _order(evidence)
    half = order.amount // 2
    mine = {payment.id for payment in evidence.payments if payment.order_id == order.id}
    return replace(
        evidence,
        orders=instead(evidence.orders, order, order._replace(amount=half)),
        orders_said=changed(evidence.orders_said, lambda said: said.order_id == order.id, amount=half),
        decisions_said=changed(
            evidence.decisions_said,
            lambda said: said.request_id == order.request_id and said.unit_price is not None,
            unit_price=half // order.quantity,
        ),
        payments=changed(evidence.payments, lambda payment: payment.id in mine, amount=half),
        provider=changed(evidence.provider, lambda line: line.payment_id in mine, amount=half),
    )


@corruption("I32", "the price of a sale is changed after it was created, and everybody pays the new one")
def price_changed(evidence: Evidence) -> Evidence:
    stock = first(evidence.stocks, lambda stock: bool(stock.unit_price))
    orders = {order.id for order in evidence.orders if order.sale_id == stock.sale_id}
    payments = {payment.id for payment in evidence.payments if payment.order_id in orders}
    return replace(
        evidence,
        stocks=instead(evidence.stocks, stock, stock._replace(unit_price=2 * (stock.unit_price or 0))),
        orders=[_twice(row) if row.id in orders else row for row in evidence.orders],
        orders_said=[_twice(said) if said.order_id in orders else said for said in evidence.orders_said],
        decisions_said=[
            said._replace(unit_price=2 * said.unit_price) if said.sale_id == stock.sale_id and said.unit_price else said
            for said in evidence.decisions_said
        ],
        payments=[_twice(row) if row.id in payments else row for row in evidence.payments],
        provider=[_twice(line) if line.payment_id in payments else line for line in evidence.provider],
    )


def _twice(row: Any) -> Any:
    return row._replace(amount=2 * row.amount)


@corruption("I25", "the price of a sale is not known", Verdict.UNKNOWN)
def price_unknown(evidence: Evidence) -> Evidence:
    return replace(evidence, stocks=[stock._replace(unit_price=None) for stock in evidence.stocks])


@corruption("I32", "a sale is closed, and no operator has closed it")
def closed_by_nobody(evidence: Evidence) -> Evidence:
    sale = first(evidence.sales, lambda sale: sale.state == "open")
    return replace(evidence, sales=instead(evidence.sales, sale, sale._replace(state="paused")))


@corruption("I33", "an order becomes PAID after it was cancelled")
def paid_after_the_end(evidence: Evidence) -> Evidence:
    change = first(evidence.transitions, lambda change: change.after == "PAID")
    return replace(evidence, transitions=instead(evidence.transitions, change, change._replace(before="CANCELLED")))


@corruption("I33", "a late payment is kept")
def late_payment_kept(evidence: Evidence) -> Evidence:
    payment = first(evidence.payments, lambda payment: payment.was_captured and not payment.was_refunded)
    return replace(evidence, payments=instead(evidence.payments, payment, payment._replace(late=True)))


# ── I26: events ──────────────────────────────────────────────────────────────────────────────────


@corruption("I26", "the units are back, and that is never published")
def release_unpublished(evidence: Evidence) -> Evidence:
    said = first(evidence.decisions_said, lambda said: said.decision == "UnitsReleased")
    return replace(
        evidence,
        decisions_said=kept(evidence.decisions_said, lambda each: each.event_id == said.event_id),
        outcomes=changed(evidence.outcomes, lambda row: row.request_id == said.request_id, may_buy_again=False),
    )


@corruption("I26", "a buyer whose units are back may never buy again")
def never_again(evidence: Evidence) -> Evidence:
    row = first(evidence.outcomes, lambda row: bool(row.may_buy_again))
    return replace(evidence, outcomes=instead(evidence.outcomes, row, row._replace(may_buy_again=False)))


@corruption("I26", "OrderPlaced is lost from the outbox")
def placed_lost(evidence: Evidence) -> Evidence:
    return _without_event(evidence, _said(evidence, "OrderPlaced").event_id)


@corruption("I26", "a late payment goes back, and LatePaymentRefunded is lost from the outbox")
def late_refund_lost(evidence: Evidence) -> Evidence:
    payment = first(evidence.payments)
    late = payment._replace(id=stranger(1), state="refunded", was_captured=True, was_refunded=True, late=True)
    line = first(evidence.provider, lambda line: line.payment_id == payment.id)._replace(payment_id=late.id)
    moved = [line._replace(what=what) for what in ("opened", "captured", "refunded")]
    return replace(evidence, payments=[*evidence.payments, late], provider=[*evidence.provider, *moved])


@corruption("I26", "an event says something else than its order")
def event_bent(evidence: Evidence) -> Evidence:
    said = _said(evidence, "OrderPaid")
    return replace(evidence, orders_said=instead(evidence.orders_said, said, said._replace(sku="another")))


# ── I27, I30: whose it is ────────────────────────────────────────────────────────────────────────


@corruption("I27", "hold, order, events and messages of one buyer's request are another's")
def given_to_another(evidence: Evidence) -> Evidence:
    order, thief = _order(evidence), "mallory"
    events = {said.event_id for said in evidence.orders_said if said.order_id == order.id}
    return replace(
        evidence,
        holds=changed(evidence.holds, lambda hold: hold.request_id == order.request_id, user_id=thief),
        orders=instead(evidence.orders, order, order._replace(user_id=thief)),
        orders_said=changed(evidence.orders_said, lambda said: said.order_id == order.id, user_id=thief),
        deliveries=changed(evidence.deliveries, lambda row: row.event_id in events, user_id=thief),
        sink=changed(evidence.sink, lambda line: line.event_id in events, user_id=thief),
    )


@corruption("I27", "units of another article are held than were decided")
def another_article(evidence: Evidence) -> Evidence:
    return replace(evidence, stocks=[stock._replace(sku=f"not {stock.sku}") for stock in evidence.stocks])


@corruption("I27", "an outcome belongs to somebody else")
def outcome_of_another(evidence: Evidence) -> Evidence:
    row = first(evidence.outcomes)
    return replace(evidence, outcomes=instead(evidence.outcomes, row, row._replace(user_id="mallory")))


@corruption("I30", "one buyer's messages go to another buyer")
def messages_misdirected(evidence: Evidence) -> Evidence:
    mine = _order(evidence)
    other = first(evidence.orders, lambda order: order.user_id != mine.user_id)
    events = {said.event_id for said in evidence.orders_said if said.order_id == mine.id}
    return replace(
        evidence,
        sink=changed(evidence.sink, lambda line: line.event_id in events, user_id=other.user_id),
    )


@corruption("I30", 'every sink says "is paid" before "is held for you"')
def messages_reversed(evidence: Evidence) -> Evidence:
    order = _order(evidence)
    events = {said.event_id for said in evidence.orders_said if said.order_id == order.id}
    backwards = iter([line for line in evidence.sink if line.event_id in events][::-1])
    return replace(evidence, sink=[next(backwards) if line.event_id in events else line for line in evidence.sink])


@corruption("I30", "a message says what another event's message says")
def message_bent(evidence: Evidence) -> Evidence:
    paid, held = _said(evidence, "OrderPaid"), _said(evidence, "OrderPlaced")
    text = first(evidence.deliveries, lambda row: row.event_id == held.event_id).text
    return replace(
        evidence,
        deliveries=changed(evidence.deliveries, lambda row: row.event_id == paid.event_id, text=text),
        sink=changed(evidence.sink, lambda line: line.event_id == paid.event_id, text=text),
    )


# ── I16, I18, I31: order and time ────────────────────────────────────────────────────────────────


@corruption("I18", "the log takes a request in an hour after closing, which says that it was admitted in time")
def in_the_log_after_closing(evidence: Evidence) -> Evidence:
    said, sale = _late(evidence)
    late = said._replace(timestamp_ms=sale + HOUR_MS)
    return replace(evidence, requested=instead(evidence.requested, said, late))


@corruption("I31", "the log takes a request in an hour after it was admitted")
def log_an_hour_ahead(evidence: Evidence) -> Evidence:
    said, _ = _late(evidence)
    late = said._replace(timestamp_ms=said.timestamp_ms + HOUR_MS)
    return replace(evidence, requested=instead(evidence.requested, said, late))


def _late(evidence: Evidence) -> tuple[Requested, int]:
    """A request whose buyer's attempts are known, and when its sale ended."""
    known = {(attempt.user_id, attempt.sale_id) for attempt in evidence.attempts}
    said = last(evidence.requested, lambda said: (said.user_id, said.sale_id) in known)
    sale = first(evidence.sales, lambda sale: sale.id == said.sale_id)
    return evidence.first_requested[said.request_id], sale.closes_at_ms


@corruption("I31", "the database's clock is ten seconds behind the one that admits")
def database_behind(evidence: Evidence) -> Evidence:
    rows = [row._replace(decided_at_ms=row.decided_at_ms - 10_000) for row in evidence.decided]
    return replace(evidence, decided=rows)


@corruption("I16", "a user's later request comes before his earlier one, which was in another sale")
def overtaken_across_sales(evidence: Evidence) -> Evidence:
    acked = [attempt for attempt in evidence.attempts if attempt.status == 202 and attempt.offset is not None]
    for earlier in acked:
        for later in acked:
            is_behind = (earlier.topic, earlier.partition) == (later.topic, later.partition)
            if earlier.user_id != later.user_id and is_behind and (earlier.offset or 0) > (later.offset or 0):
                sent = later._replace(
                    user_id=earlier.user_id, sale_id=earlier.sale_id + 1_000, at_ms=earlier.at_ms + earlier.took_ms + 1
                )
                return replace(evidence, attempts=instead(evidence.attempts, later, sent))
    raise NoMaterial
