"""Corruptions of prices, events, owners, messages and clocks that are consistent with each other but false."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from seckill.report.evidence import Evidence
from seckill.report.identity import Id
from seckill.report.rows import Order, OrderEvent, RequestRecord
from seckill.report.selftest.corruptions import (
    NothingToCorrupt,
    corruption,
    first,
    last,
    unknown_id,
    with_fields,
    with_replaced,
    without_matching,
)
from seckill.report.verdicts import Verdict

HOUR_MS = 3_600_000


def _order(evidence: Evidence, state: str = "PAID") -> Order:
    return first(evidence.orders, lambda order: order.state == state and order.amount > 0)


def _order_event(evidence: Evidence, event: str) -> OrderEvent:
    return first(evidence.order_events, lambda record: record.event == event)


def _without_event(evidence: Evidence, event: Id) -> Evidence:
    """The event never reached the topic, so none of its consequences happened either."""
    return replace(
        evidence,
        order_events=without_matching(evidence.order_events, lambda record: record.event_id == event),
        settlements=without_matching(evidence.settlements, lambda row: row.event_id == event),
        deliveries=without_matching(evidence.deliveries, lambda row: row.event_id == event),
        sink_lines=without_matching(evidence.sink_lines, lambda line: line.event_id == event),
    )


# ── I25: prices ──────────────────────────────────────────────────────────────────────────────────


@corruption("I25", "half the price is charged at every stage from the decision to the provider")
def half_price(evidence: Evidence) -> Evidence:
    order = _order(evidence)
    half = order.amount // 2
    mine = {payment.id for payment in evidence.payments if payment.order_id == order.id}
    return replace(
        evidence,
        orders=with_replaced(evidence.orders, order, order._replace(amount=half)),
        order_events=with_fields(evidence.order_events, lambda record: record.order_id == order.id, amount=half),
        decision_events=with_fields(
            evidence.decision_events,
            lambda record: record.request_id == order.request_id and record.unit_price is not None,
            unit_price=half // order.quantity,
        ),
        payments=with_fields(evidence.payments, lambda payment: payment.id in mine, amount=half),
        provider_lines=with_fields(evidence.provider_lines, lambda line: line.payment_id in mine, amount=half),
    )


@corruption("I32", "the price of a sale is changed after its creation, and every buyer pays the new price")
def price_changed(evidence: Evidence) -> Evidence:
    stock = first(evidence.stocks, lambda stock: bool(stock.unit_price))
    orders = {order.id for order in evidence.orders if order.sale_id == stock.sale_id}
    payments = {payment.id for payment in evidence.payments if payment.order_id in orders}
    return replace(
        evidence,
        stocks=with_replaced(evidence.stocks, stock, stock._replace(unit_price=2 * (stock.unit_price or 0))),
        orders=[_twice(row) if row.id in orders else row for row in evidence.orders],
        order_events=[_twice(record) if record.order_id in orders else record for record in evidence.order_events],
        decision_events=[
            record._replace(unit_price=2 * record.unit_price)
            if record.sale_id == stock.sale_id and record.unit_price
            else record
            for record in evidence.decision_events
        ],
        payments=[_twice(row) if row.id in payments else row for row in evidence.payments],
        provider_lines=[_twice(line) if line.payment_id in payments else line for line in evidence.provider_lines],
    )


def _twice(row: Any) -> Any:
    return row._replace(amount=2 * row.amount)


@corruption("I25", "the price of a sale is unknown", Verdict.UNKNOWN)
def price_unknown(evidence: Evidence) -> Evidence:
    return replace(evidence, stocks=[stock._replace(unit_price=None) for stock in evidence.stocks])


@corruption("I32", "a sale is paused without an operator action")
def paused_without_action(evidence: Evidence) -> Evidence:
    sale = first(evidence.sales, lambda sale: sale.state == "open")
    return replace(evidence, sales=with_replaced(evidence.sales, sale, sale._replace(state="paused")))


@corruption("I33", "an order becomes PAID after it was cancelled")
def paid_after_the_end(evidence: Evidence) -> Evidence:
    change = first(evidence.transitions, lambda change: change.after == "PAID")
    return replace(
        evidence, transitions=with_replaced(evidence.transitions, change, change._replace(before="CANCELLED"))
    )


@corruption("I33", "a late payment is not refunded")
def late_payment_kept(evidence: Evidence) -> Evidence:
    payment = first(evidence.payments, lambda payment: payment.was_captured and not payment.was_refunded)
    return replace(evidence, payments=with_replaced(evidence.payments, payment, payment._replace(late=True)))


# ── I26: events ──────────────────────────────────────────────────────────────────────────────────


@corruption("I26", "units are returned, but UnitsReleased is never published")
def release_unpublished(evidence: Evidence) -> Evidence:
    record = first(evidence.decision_events, lambda record: record.decision == "UnitsReleased")
    return replace(
        evidence,
        decision_events=without_matching(evidence.decision_events, lambda each: each.event_id == record.event_id),
        outcomes=with_fields(evidence.outcomes, lambda row: row.request_id == record.request_id, may_buy_again=False),
    )


@corruption("I26", "a buyer whose units were returned may not buy again")
def never_again(evidence: Evidence) -> Evidence:
    row = first(evidence.outcomes, lambda row: bool(row.may_buy_again))
    return replace(evidence, outcomes=with_replaced(evidence.outcomes, row, row._replace(may_buy_again=False)))


@corruption("I26", "OrderPlaced is lost from the outbox")
def placed_lost(evidence: Evidence) -> Evidence:
    return _without_event(evidence, _order_event(evidence, "OrderPlaced").event_id)


@corruption("I26", "a late payment is refunded, but LatePaymentRefunded is lost from the outbox")
def late_refund_lost(evidence: Evidence) -> Evidence:
    payment = first(evidence.payments)
    late = payment._replace(id=unknown_id(1), state="refunded", was_captured=True, was_refunded=True, late=True)
    line = first(evidence.provider_lines, lambda line: line.payment_id == payment.id)._replace(payment_id=late.id)
    moved = [line._replace(what=what) for what in ("opened", "captured", "refunded")]
    return replace(evidence, payments=[*evidence.payments, late], provider_lines=[*evidence.provider_lines, *moved])


@corruption("I26", "an order event has another article than its order")
def event_bent(evidence: Evidence) -> Evidence:
    record = _order_event(evidence, "OrderPaid")
    return replace(evidence, order_events=with_replaced(evidence.order_events, record, record._replace(sku="another")))


# ── I27, I30: ownership ──────────────────────────────────────────────────────────────────────────


@corruption("I27", "hold, order, events and messages of a request are assigned to another user")
def given_to_another(evidence: Evidence) -> Evidence:
    order, thief = _order(evidence), "mallory"
    events = {record.event_id for record in evidence.order_events if record.order_id == order.id}
    return replace(
        evidence,
        holds=with_fields(evidence.holds, lambda hold: hold.request_id == order.request_id, user_id=thief),
        orders=with_replaced(evidence.orders, order, order._replace(user_id=thief)),
        order_events=with_fields(evidence.order_events, lambda record: record.order_id == order.id, user_id=thief),
        deliveries=with_fields(evidence.deliveries, lambda row: row.event_id in events, user_id=thief),
        sink_lines=with_fields(evidence.sink_lines, lambda line: line.event_id in events, user_id=thief),
    )


@corruption("I27", "the held units are of another article than the decided ones")
def another_article(evidence: Evidence) -> Evidence:
    return replace(evidence, stocks=[stock._replace(sku=f"not {stock.sku}") for stock in evidence.stocks])


@corruption("I27", "an outcome is shown to another user")
def outcome_of_another(evidence: Evidence) -> Evidence:
    row = first(evidence.outcomes)
    return replace(evidence, outcomes=with_replaced(evidence.outcomes, row, row._replace(user_id="mallory")))


@corruption("I30", "one buyer's messages go to another buyer")
def messages_misdirected(evidence: Evidence) -> Evidence:
    mine = _order(evidence)
    other = first(evidence.orders, lambda order: order.user_id != mine.user_id)
    events = {record.event_id for record in evidence.order_events if record.order_id == mine.id}
    return replace(
        evidence,
        sink_lines=with_fields(evidence.sink_lines, lambda line: line.event_id in events, user_id=other.user_id),
    )


@corruption("I30", "every sink receives the messages of an order in reverse")
def messages_reversed(evidence: Evidence) -> Evidence:
    order = _order(evidence)
    events = {record.event_id for record in evidence.order_events if record.order_id == order.id}
    backwards = iter([line for line in evidence.sink_lines if line.event_id in events][::-1])
    return replace(
        evidence, sink_lines=[next(backwards) if line.event_id in events else line for line in evidence.sink_lines]
    )


@corruption("I30", "a message has the text of another event")
def message_bent(evidence: Evidence) -> Evidence:
    paid, held = _order_event(evidence, "OrderPaid"), _order_event(evidence, "OrderPlaced")
    text = first(evidence.deliveries, lambda row: row.event_id == held.event_id).text
    return replace(
        evidence,
        deliveries=with_fields(evidence.deliveries, lambda row: row.event_id == paid.event_id, text=text),
        sink_lines=with_fields(evidence.sink_lines, lambda line: line.event_id == paid.event_id, text=text),
    )


# ── I16, I18, I31: order and time ────────────────────────────────────────────────────────────────


@corruption("I18", "a request that claims to be admitted in time reaches the log an hour after closing")
def in_the_log_after_closing(evidence: Evidence) -> Evidence:
    record, sale = _late(evidence)
    late = record._replace(timestamp_ms=sale + HOUR_MS)
    return replace(evidence, requests=with_replaced(evidence.requests, record, late))


@corruption("I31", "a request reaches the log an hour after its admission")
def log_an_hour_ahead(evidence: Evidence) -> Evidence:
    record, _ = _late(evidence)
    late = record._replace(timestamp_ms=record.timestamp_ms + HOUR_MS)
    return replace(evidence, requests=with_replaced(evidence.requests, record, late))


def _late(evidence: Evidence) -> tuple[RequestRecord, int]:
    """A request whose buyer is in the crowd's log, and the end of its sale."""
    known = {(attempt.user_id, attempt.sale_id) for attempt in evidence.attempts}
    record = last(evidence.requests, lambda record: (record.user_id, record.sale_id) in known)
    sale = first(evidence.sales, lambda sale: sale.id == record.sale_id)
    return evidence.first_request_by_id[record.request_id], sale.closes_at_ms


@corruption("I31", "the database's clock is ten seconds behind the clock of Redis")
def database_behind(evidence: Evidence) -> Evidence:
    rows = [row._replace(decided_at_ms=row.decided_at_ms - 10_000) for row in evidence.decisions]
    return replace(evidence, decisions=rows)


@corruption("I16", "a user's later request overtakes an earlier one in another sale")
def overtaken_across_sales(evidence: Evidence) -> Evidence:
    clicks = Counter((attempt.user_id, attempt.sale_id, attempt.key) for attempt in evidence.attempts)
    acked = [
        attempt
        for attempt in evidence.attempts
        if attempt.status == 202
        and attempt.offset is not None
        and clicks[attempt.user_id, attempt.sale_id, attempt.key] == 1
    ]
    for earlier in acked:
        for later in acked:
            is_behind = (earlier.topic, earlier.partition) == (later.topic, later.partition)
            if earlier.user_id != later.user_id and is_behind and (earlier.offset or 0) > (later.offset or 0):
                sent = later._replace(
                    user_id=earlier.user_id, sale_id=earlier.sale_id + 1_000, at_ms=earlier.at_ms + earlier.took_ms + 1
                )
                return replace(evidence, attempts=with_replaced(evidence.attempts, later, sent))
    raise NothingToCorrupt
