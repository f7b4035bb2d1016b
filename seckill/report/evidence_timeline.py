"""Machine: from the evidence of a run to the timeline of one request, order or user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from seckill.messaging.topics import REQUEST_TOPICS
from seckill.report import timeline
from seckill.report.evidence import Evidence
from seckill.report.identity import Id, identity
from seckill.report.timeline import TimelineStep
from seckill.report.verdicts import Subject


def find_subject(evidence: Evidence, text: str) -> Subject | None:
    """`text` may be the id of a request or an order, or the name of a user."""
    try:
        name = identity(text)
    except ValueError:
        users = {record.user_id for record in evidence.requests} | {attempt.user_id for attempt in evidence.attempts}
        return Subject(user_id=text) if text in users else None
    if name in evidence.order_by_id:
        return Subject(order_id=name)
    is_request = name in evidence.decision_by_request or name in evidence.first_request_by_id
    if is_request or any(attempt.request_id == name for attempt in evidence.attempts):
        return Subject(request_id=name)
    return None


def timeline_of(evidence: Evidence, subject: Subject) -> list[TimelineStep]:
    scope = _scope(evidence, subject)
    return timeline.merge_steps(
        _client_steps(evidence, scope),
        _topic_steps(evidence, scope),
        _stock_steps(evidence, scope),
        _order_steps(evidence, scope),
        _payment_steps(evidence, scope),
        _message_steps(evidence, scope),
    )


@dataclass(slots=True)
class _Scope:
    """The ids whose steps belong to the timeline."""

    requests: set[Id] = field(default_factory=set)
    orders: set[Id] = field(default_factory=set)
    users: set[str] = field(default_factory=set)  # only if the subject is a user


def _scope(evidence: Evidence, subject: Subject) -> _Scope:
    scope = _Scope()
    if subject.request_id is not None:
        scope.requests.add(subject.request_id)
    if subject.order_id is not None:
        scope.orders.add(subject.order_id)
        order = evidence.order_by_id.get(subject.order_id)
        if order is not None:
            scope.requests.add(order.request_id)
    if subject.user_id is not None and not scope.requests:
        scope.users.add(subject.user_id)
        scope.requests |= {row.request_id for row in evidence.decisions if row.user_id == subject.user_id}
        scope.requests |= {row.request_id for row in evidence.requests if row.user_id == subject.user_id}
        scope.requests |= {row.request_id for row in evidence.holds if row.user_id == subject.user_id}
    orders = evidence.order_by_request
    scope.orders |= {orders[request].id for request in scope.requests if request in orders}
    return scope


def _client_steps(evidence: Evidence, scope: _Scope) -> Iterator[TimelineStep]:
    for attempt in evidence.attempts:
        if attempt.request_id in scope.requests or attempt.user_id in scope.users:
            yield timeline.purchase_sent(
                attempt.at_ms, attempt.user_id, attempt.quantity, attempt.key, attempt.status, attempt.took_ms
            )
    state = ""
    for poll in sorted(evidence.polls, key=lambda poll: poll[:2]):
        if poll.request_id in scope.requests and poll.status == 200 and poll.state != state:
            state = poll.state
            yield timeline.state_seen(poll.at_ms + poll.took_ms, poll.user_id, state)


def _topic_steps(evidence: Evidence, scope: _Scope) -> Iterator[TimelineStep]:
    for record in evidence.requests:
        if record.request_id in scope.requests:
            yield timeline.request_logged(
                record.timestamp_ms, record.position, record.request_id, record.user_id, record.quantity, record.sku,
                record.sale_id,
            )  # fmt: skip
    for decision in evidence.decision_events:
        if decision.request_id in scope.requests:
            yield timeline.decision_published(
                decision.timestamp_ms, decision.position, decision.decision, decision.request_id
            )
    for event in evidence.order_events:
        if event.request_id in scope.requests or event.order_id in scope.orders:
            yield timeline.order_event_published(event.timestamp_ms, event.position, event.event, event.order_id)
    for letter in evidence.dead_letters:
        dead = evidence.request_by_position.get(letter.position) if letter.topic in REQUEST_TOPICS else None
        if dead is not None and dead.request_id in scope.requests:
            yield timeline.request_dead_lettered(letter.died_at_ms, letter.group, letter.state, letter.reason)


def _stock_steps(evidence: Evidence, scope: _Scope) -> Iterator[TimelineStep]:
    for row in evidence.decisions:
        if row.request_id in scope.requests:
            yield timeline.request_decided(row.decided_at_ms, row.decision, row.request_id, row.stock_version)
    for request in scope.requests:
        for entry in evidence.entries_by_request.get(request, ()):
            yield timeline.ledger_entry_posted(
                entry.at_ms, entry.version, entry.kind, entry.units, entry.debit, entry.credit
            )


def _order_steps(evidence: Evidence, scope: _Scope) -> Iterator[TimelineStep]:
    for order in evidence.orders:
        if order.id in scope.orders:
            yield timeline.order_placed(order.placed_at_ms, order.id, order.request_id, order.quantity, order.amount)
    for change in evidence.transitions:
        if change.order_id in scope.orders:
            yield timeline.order_changed(change.at_ms, change.before, change.after)


def _payment_steps(evidence: Evidence, scope: _Scope) -> Iterator[TimelineStep]:
    payments = {payment.id for payment in evidence.payments if payment.order_id in scope.orders}
    for payment in evidence.payments:
        if payment.id in payments:
            yield timeline.payment_opened(payment.opened_at_ms, payment.id, payment.amount, payment.state)
    for line in evidence.provider_lines:
        if line.payment_id in payments:
            yield timeline.provider_logged(line.at_ms, line.what, line.amount)


def _message_steps(evidence: Evidence, scope: _Scope) -> Iterator[TimelineStep]:
    events = {event.event_id: event.event for event in evidence.order_events if event.order_id in scope.orders}
    events |= {change.event_id: change.after for change in evidence.transitions if change.order_id in scope.orders}
    for delivery in evidence.deliveries:
        if delivery.event_id in events and delivery.done_at_ms is not None:
            yield timeline.message_delivered(
                delivery.done_at_ms, delivery.channel, events[delivery.event_id], delivery.attempts
            )
    for line in evidence.sink_lines:
        if line.event_id in events:
            yield timeline.message_received(line.at_ms, line.what, line.channel, events[line.event_id], line.trace_id)
