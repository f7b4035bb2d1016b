"""Check publishing: tables and topics tell the same, event by event and field by field."""

from __future__ import annotations

from collections import Counter, defaultdict

from seckill.report.evidence import Evidence
from seckill.report.identity import Id
from seckill.report.invariants.field_comparison import ComparedField, compare_fields, optional_text
from seckill.report.invariants.returned_units import (
    RELEASED,
    check_may_buy_again,
    check_releases,
    check_settlements,
)
from seckill.report.rows import Decision, DecisionEvent, OrderEvent
from seckill.report.verdicts import Findings, Subject

LATE_REFUND = "LatePaymentRefunded"
EVENT_OF = {
    "PENDING_PAYMENT": "OrderPlaced",
    "PAID": "OrderPaid",
    "EXPIRED": "OrderExpired",
    "CANCELLED": "OrderCancelled",
    "REFUNDED": "OrderRefunded",
    "NOT_PLACED": "OrderNotPlaced",
}
"""The event that is published when an order enters a state."""


def events_match_tables(evidence: Evidence, findings: Findings) -> None:
    """I26. Every decision, order transition, late refund and return of units has its event in the topic, and every
    event has its row with the same contents. A buyer may buy again exactly when the units have been returned."""
    _check_decisions(evidence, findings)
    _check_transitions(evidence, findings)
    _check_late_refunds(evidence, findings)
    check_releases(evidence, findings)
    check_settlements(evidence, findings)
    check_may_buy_again(evidence, findings)


def _check_decisions(evidence: Evidence, findings: Findings) -> None:
    first: dict[Id, DecisionEvent] = {}
    for record in evidence.decision_events:
        findings.checked += 1
        known = first.setdefault(record.event_id, record)
        if known[2:] != record[2:]:
            findings.add_violation(
                "a decision event was published with two different contents", Subject(record.request_id)
            )
        row = evidence.decision_by_request.get(record.request_id)
        if record.decision == RELEASED or row is None or _is_same(record, row):
            continue
        origin = None if evidence.was_dead_lettered(row.request_id) else row.position
        fields = (
            ComparedField("user", record.user_id, row.user_id),
            ComparedField("sale", record.sale_id, row.sale_id),
            ComparedField("article", optional_text(record.sku, record.sale_id), row.sku),
            ComparedField("quantity", record.quantity, row.quantity),
            ComparedField("stock version", record.stock_version, row.stock_version),
            ComparedField("decided_at_ms", record.decided_at_ms, row.decided_at_ms),
            ComparedField("cause", record.cause, row.request_id),
            ComparedField("origin", record.origin, origin),
        )  # fmt: skip
        compare_fields(findings, f"the decision {row.decision}", fields, Subject(record.request_id))
    for read in evidence.consumed_decisions:
        findings.checked += 1
        event = first.get(read.event_id)
        if event is None:
            findings.add_missing("orders consumed a decision that is not in the topic", Subject(read.request_id))
        elif (event.request_id, event.decision) != (read.request_id, read.decision):
            findings.add_violation(
                f"orders consumed {read.decision}, but {event.decision} was published", Subject(read.request_id)
            )


def _is_same(record: DecisionEvent, row: Decision) -> bool:
    """A quick comparison that suffices for nearly all decisions."""
    return (
        record.user_id, record.sale_id, record.sku, record.quantity, record.stock_version, record.decided_at_ms,
        record.cause, record.origin,
    ) == (
        row.user_id, row.sale_id, row.sku, row.quantity, row.stock_version, row.decided_at_ms, row.request_id,
        row.position,
    )  # fmt: skip


def _check_transitions(evidence: Evidence, findings: Findings) -> None:
    first: dict[Id, OrderEvent] = {}
    for record in evidence.order_events:
        known = first.setdefault(record.event_id, record)
        first[record.event_id] = min(known, record, key=lambda each: each.position)
        if known[2:] != record[2:]:
            findings.add_violation(
                "an order event was published with two different contents", Subject(record.request_id, record.order_id)
            )
    changes = {change.event_id: change for change in evidence.transitions}
    last: dict[Id, OrderEvent] = {}
    for change in evidence.transitions:
        findings.checked += 1
        event, subject = first.get(change.event_id), Subject(order_id=change.order_id)
        name = EVENT_OF.get(change.after, "")
        if event is None:
            findings.add_missing(f"the order became {change.after}, which was not published", subject)
        elif (event.event, event.order_id) != (name, change.order_id):
            findings.add_violation(f"the order became {change.after}, but {event.event} was published", subject)
        elif _is_before(event, last.setdefault(change.order_id, event)):
            findings.add_violation(
                f"{name} is in the topic before {last[change.order_id].event}, which happened earlier", subject
            )
        elif ComparedField("at_ms", event.at_ms, change.at_ms).differs:
            findings.add_violation(f"{name} happened at {change.at_ms}, but {event.at_ms} was published", subject)
        if event is not None:
            last[change.order_id] = event
    for event in first.values():
        findings.checked += 1
        subject = Subject(event.request_id, event.order_id)
        if event.event_id not in changes and event.event != LATE_REFUND:
            findings.add_missing(f"{event.event} was published without a transition of the order", subject)
        order = evidence.order_by_id.get(event.order_id)
        if order is None:
            findings.add_missing(f"{event.event} was published for an order that does not exist", subject)
            continue
        fields = (
            ComparedField("request", event.request_id, order.request_id),
            ComparedField("user", event.user_id, order.user_id),
            ComparedField("sale", event.sale_id, order.sale_id),
            ComparedField("article", optional_text(event.sku, event.sale_id), optional_text(order.sku, order.cause)),
            ComparedField("quantity", event.quantity, order.quantity),
            ComparedField("pay_before_ms", event.pay_before_ms, order.pay_before_ms),
            ComparedField("cause", event.cause, order.cause),
            ComparedField("origin", event.origin, order.origin),
        )  # fmt: skip
        compare_fields(findings, event.event, fields, subject)
        if event.returned_units and (event.event != "OrderRefunded" or event.returned_units != order.quantity):
            findings.add_violation(
                f"{event.event} returns {event.returned_units} units of an order of {order.quantity}", subject
            )


def _is_before(event: OrderEvent, other: OrderEvent) -> bool:
    return event.position.partition == other.position.partition and event.position.offset < other.position.offset


def _check_late_refunds(evidence: Evidence, findings: Findings) -> None:
    """There is one event for each late payment that was refunded."""
    published: dict[Id, set[Id]] = defaultdict(set)
    for event in evidence.order_events:
        if event.event == LATE_REFUND:
            published[event.order_id].add(event.event_id)
    owed = Counter(payment.order_id for payment in evidence.payments if payment.late and payment.was_refunded)
    for order in owed.keys() | published.keys():
        findings.checked += 1
        if owed[order] > len(published[order]):
            findings.add_missing("a late payment was refunded, which was not published", Subject(order_id=order))
        elif owed[order] < len(published[order]):
            findings.add_missing("a late refund was published without a refunded late payment", Subject(order_id=order))
