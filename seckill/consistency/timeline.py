"""One merged timeline of a request, an order or a user: client → log → decision → ledger → order → money → message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id, identity
from seckill.consistency.verdicts import Subject
from seckill.topics import QUEUES


class Moment(NamedTuple):
    """`rank` orders what happened in the same millisecond, as a purchase runs."""

    at_ms: int
    rank: int
    where: str
    what: str


@dataclass(slots=True)
class _Cast:
    """Everybody and everything that the subject leads to."""

    requests: set[Id] = field(default_factory=set)
    orders: set[Id] = field(default_factory=set)
    users: set[str] = field(default_factory=set)  # only if the subject is a user


def find(evidence: Evidence, text: str) -> Subject | None:
    """Whose id it is: a request's, an order's, or a user's name."""
    try:
        name = identity(text)
    except ValueError:
        users = {said.user_id for said in evidence.requested} | {attempt.user_id for attempt in evidence.attempts}
        return Subject(user_id=text) if text in users else None
    if name in evidence.order_by_id:
        return Subject(order_id=name)
    known = name in evidence.decision_of or name in evidence.first_requested
    if known or any(attempt.request_id == name for attempt in evidence.attempts):
        return Subject(request_id=name)
    return None


def of(evidence: Evidence, subject: Subject) -> list[Moment]:
    cast = _cast(evidence, subject)
    moments = [
        *_client(evidence, cast),
        *_log(evidence, cast),
        *_stock(evidence, cast),
        *_orders(evidence, cast),
        *_money(evidence, cast),
        *_messages(evidence, cast),
    ]
    return sorted(moments)


def _cast(evidence: Evidence, subject: Subject) -> _Cast:
    cast = _Cast()
    if subject.request_id is not None:
        cast.requests.add(subject.request_id)
    if subject.order_id is not None:
        cast.orders.add(subject.order_id)
        order = evidence.order_by_id.get(subject.order_id)
        if order is not None:
            cast.requests.add(order.request_id)
    if subject.user_id is not None and not cast.requests:
        cast.users.add(subject.user_id)
        cast.requests |= {row.request_id for row in evidence.decided if row.user_id == subject.user_id}
        cast.requests |= {row.request_id for row in evidence.requested if row.user_id == subject.user_id}
        cast.requests |= {row.request_id for row in evidence.holds if row.user_id == subject.user_id}
    cast.orders |= {evidence.order_of[request].id for request in cast.requests if request in evidence.order_of}
    return cast


def _client(evidence: Evidence, cast: _Cast) -> list[Moment]:
    moments = []
    for attempt in evidence.attempts:
        if attempt.request_id in cast.requests or attempt.user_id in cast.users:
            told = "no answer" if attempt.status == 0 else str(attempt.status)
            what = f"{attempt.user_id} asks for {attempt.quantity}, key {attempt.key} → {told} in {attempt.took_ms} ms"
            moments.append(Moment(attempt.at_ms, 0, "client", what))
    state = ""
    for sight in sorted(evidence.sights, key=lambda sight: sight[:2]):
        if sight.request_id in cast.requests and sight.status == 200 and sight.state != state:
            state = sight.state
            moments.append(Moment(sight.at_ms + sight.took_ms, 9, "client", f"{sight.user_id} sees {state}"))
    return moments


def _log(evidence: Evidence, cast: _Cast) -> list[Moment]:
    moments = []
    for said in evidence.requested:
        if said.request_id in cast.requests:
            where = f"{said.place.topic}-{said.place.partition}@{said.place.offset}"
            what = f"request {said.request_id} of {said.user_id}: {said.quantity} {said.sku} of sale {said.sale_id}"
            moments.append(Moment(said.timestamp_ms, 1, where, what))
    for decision in evidence.decisions_said:
        if decision.request_id in cast.requests:
            where = f"inventory.decisions-{decision.place.partition}@{decision.place.offset}"
            moments.append(Moment(decision.timestamp_ms, 4, where, f"{decision.decision} of {decision.request_id}"))
    for event in evidence.orders_said:
        if event.request_id in cast.requests or event.order_id in cast.orders:
            where = f"order.events-{event.place.partition}@{event.place.offset}"
            moments.append(Moment(event.timestamp_ms, 7, where, f"{event.event} of order {event.order_id}"))
    for letter in evidence.dead:
        said_there = evidence.requested_at.get(letter.place) if letter.topic in QUEUES else None
        if said_there is not None and said_there.request_id in cast.requests:
            what = f"dead letter of {letter.group} ({letter.state}): {letter.reason}"
            moments.append(Moment(letter.died_at_ms, 2, "dead letters", what))
    return moments


def _stock(evidence: Evidence, cast: _Cast) -> list[Moment]:
    moments = []
    for row in evidence.decided:
        if row.request_id in cast.requests:
            what = f"{row.decision} for {row.request_id} at stock version {row.stock_version}"
            moments.append(Moment(row.decided_at_ms, 2, "decision", what))
    for request in cast.requests:
        for entry in evidence.entries_of.get(request, ()):
            what = f"version {entry.version}: {entry.kind}, {entry.units} from {entry.debit} to {entry.credit}"
            moments.append(Moment(entry.at_ms, 3, "ledger", what))
    return moments


def _orders(evidence: Evidence, cast: _Cast) -> list[Moment]:
    moments = []
    for order in evidence.orders:
        if order.id in cast.orders:
            what = f"order {order.id} of {order.request_id}, {order.quantity} for {order.amount}"
            moments.append(Moment(order.placed_at_ms, 5, "order", what))
    for change in evidence.transitions:
        if change.order_id in cast.orders:
            moments.append(Moment(change.at_ms, 6, "order", f"{change.before or 'new'} → {change.after}"))
    return moments


def _money(evidence: Evidence, cast: _Cast) -> list[Moment]:
    payments = {payment.id for payment in evidence.payments if payment.order_id in cast.orders}
    moments = []
    for payment in evidence.payments:
        if payment.id in payments:
            what = f"attempt {payment.id}, {payment.amount}, now {payment.state}"
            moments.append(Moment(payment.opened_at_ms, 6, "payment", what))
    for line in evidence.provider:
        if line.payment_id in payments:
            moments.append(Moment(line.at_ms, 6, "provider", f"{line.what} {line.amount}"))
    return moments


def _messages(evidence: Evidence, cast: _Cast) -> list[Moment]:
    events = {said.event_id: said.event for said in evidence.orders_said if said.order_id in cast.orders}
    events |= {change.event_id: change.after for change in evidence.transitions if change.order_id in cast.orders}
    moments = []
    for delivery in evidence.deliveries:
        if delivery.event_id in events and delivery.done_at_ms is not None:
            what = f"{delivery.channel} of {events[delivery.event_id]}, {delivery.attempts} attempts"
            moments.append(Moment(delivery.done_at_ms, 8, "delivery", what))
    for line in evidence.sink:
        if line.event_id in events:
            trace = f", trace {line.trace_id}" if line.trace_id else ""
            what = f"{line.what}: {line.channel} of {events[line.event_id]}{trace}"
            moments.append(Moment(line.at_ms, 8, "sink", what))
    return moments
