"""Check consumption: no offset is skipped, and a record that is read twice has its effect once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from operator import attrgetter

from seckill.messaging.topics import TOPICS
from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source
from seckill.report.identity import Id
from seckill.report.rows import CHANNELS, NOTIFIED_EVENTS, RecordPosition
from seckill.report.verdicts import Findings, Subject

SPARK = "analytics"
"""This group keeps its offsets in its own checkpoint."""
DECISIONS, ORDERS = "inventory.decisions", "order.events"


def no_offset_skipped(evidence: Evidence, findings: Findings) -> None:
    """I11. Every record below the offset of a group has left a row in the tables of that group or is one of its dead
    letters. Offsets committed to the broker are never ahead of the offsets in the database, and those are never ahead
    of the log. The report itself has read every record between the start and the cut of each partition."""
    _check_partitions(evidence, findings)
    reached = {(row.group, row.topic, row.partition): row.next_offset for row in evidence.group_offsets}
    for log in evidence.partition_logs:
        for group in TOPICS[log.topic].readers if log.topic in TOPICS else ():
            next_offset = reached.get((group, log.topic, log.partition))
            if next_offset is not None and next_offset > log.cut and not evidence.unfinished:
                findings.add_violation(
                    f"{group} is at {next_offset} in {log.topic}-{log.partition}, which ends at {log.cut}"
                )
            elif group != SPARK and (next_offset or 0) < log.cut:
                findings.add_missing(f"{group} is at {next_offset or 0} of {log.cut} in {log.topic}-{log.partition}")
    for row in evidence.committed_offsets:
        if row.next_offset > reached.get((row.group, row.topic, row.partition), 0) and not evidence.unfinished:
            where = f"{row.topic}-{row.partition}"
            findings.add_violation(
                f"{row.group} has committed {row.next_offset} in {where}, ahead of its offset in the database"
            )
    dead = {(letter.group, letter.topic, letter.position) for letter in evidence.dead_letters}
    seen = {row.position for row in evidence.decisions} | {row.position for row in evidence.redeliveries}

    def check(group: str, topic: str, place: RecordPosition, is_known: bool, request: Id) -> None:
        findings.checked += 1
        if is_known or (group, topic, place) in dead:
            return
        where = f"{topic}-{place.partition}@{place.offset}"
        if place.offset < reached.get((group, topic, place.partition), 0):
            findings.add_violation(f"{group} skipped {where} without a row or a dead letter", Subject(request))
        else:
            findings.add_missing(f"{group} has not read {where}", Subject(request))

    for record in evidence.requests:
        check("inventory", record.position.topic, record.position, record.position in seen, record.request_id)
    read = {row.event_id for row in evidence.consumed_decisions}
    shown = {row.request_id for row in evidence.outcomes}
    for decision in evidence.decision_events:
        if decision.decision != "UnitsReleased":
            check("orders", DECISIONS, decision.position, decision.event_id in read, decision.request_id)
        check("gateway.outcomes", DECISIONS, decision.position, decision.request_id in shown, decision.request_id)
    settled = {row.event_id for row in evidence.settlements}
    delivered = {(row.event_id, row.channel) for row in evidence.deliveries}
    for event in evidence.order_events:
        check("inventory.settlement", ORDERS, event.position, event.event_id in settled, event.request_id)
        if event.event in NOTIFIED_EVENTS and Source.MESSAGES not in evidence.declared_off:
            for channel in CHANNELS:
                is_known = (event.event_id, channel) in delivered
                check(f"notify.{channel}", ORDERS, event.position, is_known, event.request_id)
    holes = sum(log.cut - log.start - log.records for log in evidence.partition_logs)
    findings.facts["offsets without a record"] = holes


def _check_partitions(evidence: Evidence, findings: Findings) -> None:
    places: dict[tuple[str, int], set[int]] = defaultdict(set)
    counts: Counter[tuple[str, int]] = Counter()
    for topic, place in _records(evidence):
        places[topic, place.partition].add(place.offset)
        counts[topic, place.partition] += 1
    logs = {(log.topic, log.partition): log for log in evidence.partition_logs}
    for key, offsets in places.items():
        log = logs.get(key)
        where = f"{key[0]}-{key[1]}"
        if log is None:
            findings.add_violation(f"records of {where}, which is not among the partitions that were read")
        elif len(offsets) != counts[key]:
            findings.add_violation(f"{counts[key]} records of {where} have {len(offsets)} different offsets")
        elif min(offsets) < log.start or max(offsets) >= log.cut:
            findings.add_violation(f"a record of {where} outside [{log.start}, {log.cut})")
    for log in evidence.partition_logs:
        findings.checked += 1
        if log.records != counts[log.topic, log.partition]:
            count = counts[log.topic, log.partition]
            findings.add_violation(
                f"{log.records} records of {log.topic}-{log.partition} were read, but {count} are in the evidence"
            )
        if log.start or log.topic not in TOPICS:
            findings.add_violation(f"{log.topic}-{log.partition} starts at offset {log.start}")
    by_position = {record.position: record.request_id for record in evidence.requests}
    for row in evidence.redeliveries:
        if row.request_id != by_position.get(row.position, row.request_id):
            findings.add_violation(
                f"delivered again at {row.position}, where the log has another request", Subject(row.request_id)
            )


def _records(evidence: Evidence) -> Iterator[tuple[str, RecordPosition]]:
    yield from ((record.position.topic, record.position) for record in evidence.requests)
    yield from ((DECISIONS, record.position) for record in evidence.decision_events)
    yield from ((ORDERS, record.position) for record in evidence.order_events)
    yield from ((bad.topic, bad.position) for bad in evidence.unreadable)


def one_effect_per_cause(evidence: Evidence, findings: Findings) -> None:
    """I13. Every cause has one effect, however often it was delivered; redeliveries are counted. No table has two rows
    with the same key."""
    _check_keys(evidence, findings)
    _check_unique(findings, "order", ((order.request_id, order.request_id) for order in evidence.orders))
    _check_unique(
        findings,
        "transition of an order",
        (((change.order_id, change.after), None) for change in evidence.transitions),
    )
    _check_unique(
        findings,
        "ledger entry",
        (((entry.kind, entry.cause), entry.request_id) for entry in evidence.ledger),
    )
    _check_unique(
        findings,
        "effect in a sink",
        (((line.event_id, line.channel), None) for line in evidence.sink_lines if line.what == "effect"),
    )
    _check_unique(
        findings,
        "movement of money",
        (
            ((line.payment_id, line.what), None)
            for line in evidence.provider_lines
            if line.what in ("captured", "refunded")
        ),
    )
    events: dict[tuple[Id, str], set[Id]] = defaultdict(set)
    for record in evidence.order_events:
        events[record.order_id, record.event].add(record.event_id)
    for released in evidence.decision_events:
        if released.decision == "UnitsReleased":
            events[released.request_id, released.decision].add(released.event_id)
    requests = {order.id: order.request_id for order in evidence.orders}
    for (subject, name), ids in events.items():
        findings.checked += 1
        if len(ids) > 1 and name != "LatePaymentRefunded":
            findings.add_violation(f"{len(ids)} different events {name}", Subject(requests.get(subject, subject)))
    again = {
        "requests delivered again": len(evidence.redeliveries),
        "decisions published again": len(evidence.decision_events)
        - len({e.event_id for e in evidence.decision_events}),
        "order events published again": len(evidence.order_events) - len({e.event_id for e in evidence.order_events}),
        "messages sent again": sum(line.what == "again" for line in evidence.sink_lines),
    }
    findings.facts |= again


KEYS: dict[str, tuple[str, ...]] = {
    "sales": ("id",), "stocks": ("id",), "holds": ("request_id",), "settlements": ("event_id",), "orders": ("id",),
    "transitions": ("event_id",), "consumed_decisions": ("event_id",), "payments": ("id",),
    "callbacks": ("callback_id",),
    "deliveries": ("event_id", "channel"), "outcomes": ("request_id",), "redeliveries": ("position",),
    "gates": ("stock_id",),
    "group_offsets": ("group", "topic", "partition"), "committed_offsets": ("group", "topic", "partition"),
    "partition_logs": ("topic", "partition"), "dead_letters": ("group", "position"),
    "spark_cuts": ("run", "topic", "partition"),
    "spark_counts": ("run", "topic", "partition", "kind"),
}  # fmt: skip
"""The key columns of each collection."""


def _check_keys(evidence: Evidence, findings: Findings) -> None:
    for field, columns in KEYS.items():
        rows = getattr(evidence, field)
        findings.checked += len(rows)
        if len(set(map(attrgetter(*columns), rows))) < len(rows):
            findings.add_violation(f"two rows with the same key among {field.replace('_', ' ')}")


def _check_unique(findings: Findings, what: str, causes: Iterable[tuple[object, Id | None]]) -> None:
    counts: Counter[object] = Counter()
    for cause, request in causes:
        findings.checked += 1
        counts[cause] += 1
        if counts[cause] == 2:
            shown = " ".join(str(part) for part in cause) if isinstance(cause, tuple) else str(cause)
            findings.add_violation(f"a second {what} for {shown}", Subject(request))
