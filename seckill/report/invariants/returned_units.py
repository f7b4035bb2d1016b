"""Check returned units, a part of I26: releases, settlements and the right to buy again match the ledger."""

from __future__ import annotations

from collections.abc import Iterator

from seckill.report.evidence import Evidence
from seckill.report.identity import Id
from seckill.report.invariants.field_comparison import ComparedField, compare_fields, optional_text
from seckill.report.rows import DecisionEvent, LedgerEntry, RecordPosition
from seckill.report.verdicts import Findings, Subject

RELEASED = "UnitsReleased"
REASONS = {
    "OrderExpired": ("release", "expired"),
    "OrderCancelled": ("release", "cancelled"),
    "OrderNotPlaced": ("release", "not placed"),
    "OrderRefunded": ("return", "refunded"),
}
"""For each order event that returns units, the kind of ledger entry and the reason that is published."""


def _return_entries(evidence: Evidence) -> Iterator[LedgerEntry]:
    return (entry for entry in evidence.ledger if entry.kind in ("release", "return"))


def check_releases(evidence: Evidence, findings: Findings) -> None:
    """Compare UnitsReleased events with the ledger entries that return units."""
    published: dict[Id, DecisionEvent] = {}
    for each in evidence.decision_events:
        if each.decision == RELEASED:
            published.setdefault(each.request_id, each)
    stocks = {stock.id: stock for stock in evidence.stocks}
    holds = {hold.request_id: hold for hold in evidence.holds}
    kinds = {event.event_id: event.event for event in evidence.order_events}
    entries: dict[Id, LedgerEntry] = {}
    for entry in _return_entries(evidence):
        findings.checked += 1
        if entry.request_id is None:
            continue
        entries[entry.request_id] = entry
        subject = Subject(entry.request_id)
        event = published.get(entry.request_id)
        if event is None:
            findings.add_missing("its units were returned, which was not published", subject)
            continue
        stock, hold = stocks.get(entry.stock_id), holds.get(entry.request_id)
        kind, reason = REASONS.get(kinds.get(entry.cause, ""), (entry.kind, None))
        if kind != entry.kind:
            findings.add_violation(f"a {entry.kind} in the ledger was caused by {kinds[entry.cause]}", subject)
        fields = (
            ComparedField("cause", event.cause, entry.cause),
            ComparedField("stock version", event.stock_version, entry.version),
            ComparedField("quantity", event.quantity, entry.units),
            ComparedField("reason", optional_text(event.reason, event.stock_version), reason),
            ComparedField("sale", event.sale_id, stock and stock.sale_id),
            ComparedField("article", optional_text(event.sku, event.sale_id), stock and stock.sku),
            ComparedField("user", event.user_id, hold and hold.user_id),
            ComparedField("origin", event.origin, hold and hold.origin),
        )  # fmt: skip
        compare_fields(findings, RELEASED, fields, subject)
    for request in published.keys() - entries.keys():
        findings.add_missing("UnitsReleased was published, but the ledger has no such return", Subject(request))


def check_settlements(evidence: Evidence, findings: Findings) -> None:
    """Settlement consumed the published events and posted exactly the entries that the ledger has."""
    events = {event.event_id: event for event in evidence.order_events}
    posted = {entry.cause for entry in evidence.ledger if entry.kind in ("sell", "release", "return")}
    settled_for: dict[Id, Id] = {}
    for row in evidence.settlements:
        findings.checked += 1
        settled_for[row.event_id] = row.request_id
        event, subject = events.get(row.event_id), Subject(row.request_id)
        if event is None:
            findings.add_missing(f"settlement consumed {row.kind}, which is not in the topic", subject)
        elif (event.event, event.request_id) != (row.kind, row.request_id):
            findings.add_violation(f"settlement consumed {row.kind}, but {event.event} was published", subject)
        if row.posted != (row.event_id in posted):
            done = "posted" if row.posted else "not posted"
            findings.add_violation(f"{row.kind} is marked as {done}, but the ledger says otherwise", subject)
    for entry in evidence.ledger:
        if entry.kind == "reserve" and entry.cause != entry.request_id:
            findings.add_violation(
                "a reservation was caused by something other than its request", Subject(entry.request_id)
            )
        elif entry.cause in settled_for and settled_for[entry.cause] != entry.request_id:
            findings.add_violation(
                f"a {entry.kind} in the ledger was caused by an event of another request", Subject(entry.request_id)
            )
        elif entry.kind in ("sell", "release", "return") and entry.cause not in settled_for:
            findings.add_violation(
                f"a {entry.kind} in the ledger was caused by no event that settlement consumed",
                Subject(entry.request_id),
            )


def check_may_buy_again(evidence: Evidence, findings: Findings) -> None:
    back = {entry.request_id for entry in _return_entries(evidence)}
    open_letters = {
        (letter.topic, letter.position.partition, letter.position.offset)
        for letter in evidence.dead_letters
        if letter.group == "gateway.outcomes" and letter.state != "replayed"
    }
    unread = {
        record.request_id
        for record in evidence.decision_events
        if record.decision == RELEASED and _at("inventory.decisions", record.position) in open_letters
    }
    for row in evidence.outcomes:
        findings.checked += 1
        if row.may_buy_again and row.request_id not in back:
            findings.add_violation("may buy again, but the units have not been returned", Subject(row.request_id))
        elif row.may_buy_again is False and row.request_id in back and row.request_id not in unread:
            findings.add_missing(
                "the units have been returned, but the buyer may not buy again", Subject(row.request_id)
            )


def _at(topic: str, place: RecordPosition) -> tuple[str, int, int]:
    return topic, place.partition, place.offset
