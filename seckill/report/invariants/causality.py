"""Causes: nothing stands anywhere with a time before that of what led to it, or after the report was taken."""

from __future__ import annotations

from collections.abc import Iterator

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
from seckill.consistency.verdicts import Found, Subject

STATE_OF = {"PENDING_PAYMENT": "AWAITING_PAYMENT"}
"""What a buyer sees of an order, where that has another name."""

Step = tuple[int, int | None, str, str, Id | None, Id | None, str | None]
"""When; not before when (None: nothing is known of its cause); what, in two parts; of which request, order, user. Plain
and not put into words: there are many of them, and nearly all are right."""


def in_order_of_cause(evidence: Evidence, found: Found, skew_ms: int) -> None:
    latest_ms = evidence.taken_at_ms + skew_ms
    for at_ms, cause_ms, kind, of, request, order, user in _steps(evidence):
        found.looked_at += 1
        if at_ms > latest_ms:
            what = f"{kind} {of}: {at_ms - evidence.taken_at_ms} ms after the report"
        elif cause_ms is not None and at_ms < cause_ms - skew_ms:
            what = f"{kind} {of}: {cause_ms - at_ms} ms before its cause"
        else:
            continue
        found.say_wrong(what, Subject(request, order, user))


def _steps(evidence: Evidence) -> Iterator[Step]:
    decided = {row.request_id: row.decided_at_ms for row in evidence.decided}
    yield from _of_the_crowd(evidence, decided)
    for verb in evidence.verbs:
        yield verb.at_ms, None, "verb", verb.verb, None, None, None
    events = {event.event_id: event.at_ms for event in evidence.orders_said}
    placed = {order.id: order.placed_at_ms for order in evidence.orders}
    for order in evidence.orders:
        yield order.placed_at_ms, decided.get(order.request_id), "order", "placed", order.request_id, order.id, None
    before = dict(placed)
    for change in evidence.transitions:
        yield change.at_ms, before.get(change.order_id), "became", change.after, None, change.order_id, None
        before[change.order_id] = change.at_ms
    entered = {request: said.timestamp_ms for request, said in evidence.first_requested.items()}
    for entry in evidence.ledger:  # a reservation has the time at which its transaction began, not yet decided
        cause_ms = entered.get(entry.cause) if entry.kind == "reserve" else events.get(entry.cause)
        yield entry.at_ms, cause_ms, "ledger entry", entry.kind, entry.request_id, None, None
    opened = {payment.id: payment.opened_at_ms for payment in evidence.payments}
    for payment in evidence.payments:
        order_ms = placed.get(payment.order_id)
        yield payment.opened_at_ms, order_ms, "payment", "opened", None, payment.order_id, None
    for line in evidence.provider:
        yield line.at_ms, opened.get(line.payment_id), "provider", line.what, None, line.order_id, None
    told: dict[tuple[Id, str], int] = {}
    for sent in evidence.sink:
        told[sent.event_id, sent.channel] = sent.at_ms
        yield sent.at_ms, events.get(sent.event_id), "message by", sent.channel, None, None, sent.user_id
    for row in evidence.deliveries:
        if row.done_at_ms is not None:
            first_ms = told.get((row.event_id, row.channel))
            yield row.done_at_ms, first_ms, "delivery by", row.channel, None, None, row.user_id
    for said in evidence.decisions_said:
        yield said.timestamp_ms, decided.get(said.request_id), "published", said.decision, said.request_id, None, None
    for event in evidence.orders_said:
        yield event.timestamp_ms, event.at_ms, "published", event.event, event.request_id, event.order_id, None


def _of_the_crowd(evidence: Evidence, decided: dict[Id, int]) -> Iterator[Step]:
    """A sight is not before the state that was seen, nor before its request was in the log."""
    for attempt in evidence.attempts:
        ended_ms = attempt.at_ms + attempt.took_ms
        yield ended_ms, attempt.at_ms, "answer", "to a purchase", attempt.request_id, None, attempt.user_id
    for call in evidence.called:
        yield call.at_ms + call.took_ms, call.at_ms, "answer to", call.what, None, call.order_id, call.user_id
    moved = dict(_moved(evidence))
    decisions = {row.request_id: row.decision for row in evidence.decided}
    entered = {request: said.timestamp_ms for request, said in evidence.first_requested.items()}
    for sight in evidence.sights:
        request = sight.request_id
        entered_ms = entered.get(request)
        cause_ms = entered_ms
        if sight.state and sight.state != "QUEUED":
            cause_ms = (
                decided.get(request) if decisions.get(request) == sight.state else moved.get((request, sight.state))
            )
        yield sight.at_ms + sight.took_ms, cause_ms, "saw", sight.state, request, None, sight.user_id
        yield sight.at_ms, entered_ms, "looked at", "a purchase", request, None, sight.user_id


def _moved(evidence: Evidence) -> Iterator[tuple[tuple[Id, str], int]]:
    """When each order came into each state that its buyer can see."""
    for change in evidence.transitions:
        order = evidence.order_by_id.get(change.order_id)
        if order is not None:
            yield (order.request_id, STATE_OF.get(change.after, change.after)), change.at_ms
