"""Causes: nothing stands anywhere with a time before that of what led to it, or after the report was taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
from seckill.consistency.rows import RESERVED
from seckill.consistency.verdicts import Found, Subject

STATE_OF = {"PENDING_PAYMENT": "AWAITING_PAYMENT"}


class Step(NamedTuple):
    """Something that happened, and when at the earliest that can have been; None: nothing is known of its cause."""

    what: str
    at_ms: int
    not_before_ms: int | None
    subject: Subject


def in_order_of_cause(evidence: Evidence, found: Found, skew_ms: int) -> None:
    for step in _steps(evidence):
        found.looked_at += 1
        if step.at_ms > evidence.taken_at_ms + skew_ms:
            found.say_wrong(f"{step.what}: {step.at_ms - evidence.taken_at_ms} ms after the report", step.subject)
        elif step.not_before_ms is not None and step.at_ms < step.not_before_ms - skew_ms:
            found.say_wrong(f"{step.what}: {step.not_before_ms - step.at_ms} ms before its cause", step.subject)


def _steps(evidence: Evidence) -> Iterator[Step]:
    yield from _of_the_crowd(evidence)
    for verb in evidence.verbs:
        yield Step(verb.verb, verb.at_ms, None, Subject())
    decided = {row.request_id: row.decided_at_ms for row in evidence.decided}
    events = {event.event_id: event.at_ms for event in evidence.orders_said}
    placed = {order.id: order.placed_at_ms for order in evidence.orders}
    for order in evidence.orders:
        yield Step("placed", order.placed_at_ms, decided.get(order.request_id), Subject(order.request_id, order.id))
    before = dict(placed)
    for change in evidence.transitions:
        subject = Subject(order_id=change.order_id)
        yield Step(f"became {change.after}", change.at_ms, before.get(change.order_id), subject)
        before[change.order_id] = change.at_ms
    for entry in evidence.ledger:
        cause_ms = decided.get(entry.cause) if entry.kind == "reserve" else events.get(entry.cause)
        yield Step(f"{entry.kind} in the ledger", entry.at_ms, cause_ms, Subject(entry.request_id))
    opened = {}
    for payment in evidence.payments:
        opened[payment.id] = payment.opened_at_ms
        yield Step("payment", payment.opened_at_ms, placed.get(payment.order_id), Subject(None, payment.order_id))
    for line in evidence.provider:
        yield Step(
            f"{line.what} by the provider", line.at_ms, opened.get(line.payment_id), Subject(None, line.order_id)
        )
    told = {}
    for sent in evidence.sink:
        told[sent.event_id, sent.channel] = sent.at_ms
        yield Step(f"message by {sent.channel}", sent.at_ms, events.get(sent.event_id), Subject(user_id=sent.user_id))
    for row in evidence.deliveries:
        if row.done_at_ms is not None:
            first_ms = told.get((row.event_id, row.channel))
            yield Step(f"delivery by {row.channel}", row.done_at_ms, first_ms, Subject(user_id=row.user_id))
    for said in evidence.decisions_said:
        subject = Subject(said.request_id)
        yield Step(f"{said.decision} published", said.timestamp_ms, decided.get(said.request_id), subject)
    for event in evidence.orders_said:
        yield Step(f"{event.event} published", event.timestamp_ms, event.at_ms, Subject(event.request_id))


def _of_the_crowd(evidence: Evidence) -> Iterator[Step]:
    for attempt in evidence.attempts:
        subject = Subject(attempt.request_id, None, attempt.user_id)
        yield Step("an answer", attempt.at_ms + attempt.took_ms, attempt.at_ms, subject)
    for call in evidence.called:
        yield Step(f"an answer ({call.what})", call.at_ms + call.took_ms, call.at_ms, Subject(user_id=call.user_id))
    reached = dict(_reached(evidence))
    entered = {request: said.timestamp_ms for request, said in evidence.first_requested.items()}
    for sight in evidence.sights:
        cause_ms = reached.get((sight.request_id, sight.state), entered.get(sight.request_id))
        yield Step(f"saw {sight.state}", sight.at_ms + sight.took_ms, cause_ms, Subject(sight.request_id))
        yield Step("looked", sight.at_ms, entered.get(sight.request_id), Subject(sight.request_id))


def _reached(evidence: Evidence) -> Iterator[tuple[tuple[Id, str], int]]:
    """When each request came into each state that its buyer can see."""
    for row in evidence.decided:
        yield (row.request_id, row.decision if row.decision != RESERVED else "RESERVED"), row.decided_at_ms
    for change in evidence.transitions:
        order = evidence.order_by_id.get(change.order_id)
        if order is not None:
            yield (order.request_id, STATE_OF.get(change.after, change.after)), change.at_ms
