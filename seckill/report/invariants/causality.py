"""Check causality: nothing has a time before that of its cause, or after the report was taken."""

from __future__ import annotations

from collections.abc import Iterator

from seckill.report.evidence import Evidence
from seckill.report.identity import Id
from seckill.report.verdicts import Findings, Subject

STATE_OF = {"PENDING_PAYMENT": "AWAITING_PAYMENT"}
"""Order states that are shown to buyers under another name."""

TimedStep = tuple[int, int | None, str, str, Id | None, Id | None, str | None]
"""Time; time of the cause (None if unknown); what happened, in two parts; request, order, user. A plain tuple, because
there are millions of steps and a text is needed only for the few that are wrong."""


def check_causality(evidence: Evidence, findings: Findings, skew_ms: int) -> None:
    latest_ms = evidence.taken_at_ms + skew_ms
    for at_ms, cause_ms, kind, of, request, order, user in _steps(evidence):
        findings.checked += 1
        if at_ms > latest_ms:
            what = f"{kind} {of}: {at_ms - evidence.taken_at_ms} ms after the report"
        elif cause_ms is not None and at_ms < cause_ms - skew_ms:
            what = f"{kind} {of}: {cause_ms - at_ms} ms before its cause"
        else:
            continue
        findings.add_violation(what, Subject(request, order, user))


def _steps(evidence: Evidence) -> Iterator[TimedStep]:
    decided = {row.request_id: row.decided_at_ms for row in evidence.decisions}
    yield from _of_the_crowd(evidence, decided)
    for verb in evidence.operator_actions:
        yield verb.at_ms, None, "verb", verb.verb, None, None, None
    events = {event.event_id: event.at_ms for event in evidence.order_events}
    placed = {order.id: order.placed_at_ms for order in evidence.orders}
    for order in evidence.orders:
        yield order.placed_at_ms, decided.get(order.request_id), "order", "placed", order.request_id, order.id, None
    before = dict(placed)
    for change in evidence.transitions:
        yield change.at_ms, before.get(change.order_id), "became", change.after, None, change.order_id, None
        before[change.order_id] = change.at_ms
    entered = {request: record.timestamp_ms for request, record in evidence.first_request_by_id.items()}
    for entry in evidence.ledger:  # a reservation carries the start of its transaction, which is before the decision
        cause_ms = entered.get(entry.cause) if entry.kind == "reserve" else events.get(entry.cause)
        yield entry.at_ms, cause_ms, "ledger entry", entry.kind, entry.request_id, None, None
    opened = {payment.id: payment.opened_at_ms for payment in evidence.payments}
    for payment in evidence.payments:
        order_ms = placed.get(payment.order_id)
        yield payment.opened_at_ms, order_ms, "payment", "opened", None, payment.order_id, None
    for line in evidence.provider_lines:
        yield line.at_ms, opened.get(line.payment_id), "provider", line.what, None, line.order_id, None
    received_ms: dict[tuple[Id, str], int] = {}
    for sent in evidence.sink_lines:
        if sent.what == "effect":  # a call that timed out may reach the sink long after its successful repeat
            received_ms.setdefault((sent.event_id, sent.channel), sent.at_ms)
        yield sent.at_ms, events.get(sent.event_id), "message by", sent.channel, None, None, sent.user_id
    for row in evidence.deliveries:
        if row.done_at_ms is not None:
            first_ms = received_ms.get((row.event_id, row.channel))
            yield row.done_at_ms, first_ms, "delivery by", row.channel, None, None, row.user_id
    for decision in evidence.decision_events:
        yield (
            decision.timestamp_ms,
            decided.get(decision.request_id),
            "published",
            decision.decision,
            decision.request_id,
            None,
            None,
        )
    for event in evidence.order_events:
        yield event.timestamp_ms, event.at_ms, "published", event.event, event.request_id, event.order_id, None


def _of_the_crowd(evidence: Evidence, decided: dict[Id, int]) -> Iterator[TimedStep]:
    """A poll cannot show a state before the state was reached, or before the request was in the log."""
    for attempt in evidence.attempts:
        ended_ms = attempt.at_ms + attempt.took_ms
        yield ended_ms, attempt.at_ms, "answer", "to a purchase", attempt.request_id, None, attempt.user_id
    for call in evidence.other_calls:
        yield call.at_ms + call.took_ms, call.at_ms, "answer to", call.what, None, call.order_id, call.user_id
    moved = dict(_moved(evidence))
    decisions = {row.request_id: row.decision for row in evidence.decisions}
    entered = {request: record.timestamp_ms for request, record in evidence.first_request_by_id.items()}
    for poll in evidence.polls:
        request = poll.request_id
        entered_ms = entered.get(request)
        cause_ms = entered_ms
        if poll.state and poll.state != "QUEUED":
            cause_ms = (
                decided.get(request) if decisions.get(request) == poll.state else moved.get((request, poll.state))
            )
        yield poll.at_ms + poll.took_ms, cause_ms, "saw", poll.state, request, None, poll.user_id
        yield poll.at_ms, entered_ms, "poll of", "a purchase", request, None, poll.user_id


def _moved(evidence: Evidence) -> Iterator[tuple[tuple[Id, str], int]]:
    """When each order reached each state that its buyer can see."""
    for change in evidence.transitions:
        order = evidence.order_by_id.get(change.order_id)
        if order is not None:
            yield (order.request_id, STATE_OF.get(change.after, change.after)), change.at_ms
