"""Check statistics: Spark's counts equal the topics up to Spark's own cut, and the database at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from seckill.messaging.topics import REQUEST_TOPICS
from seckill.report.evidence import Evidence
from seckill.report.identity import Id
from seckill.report.rows import RecordPosition
from seckill.report.spark_counts import SparkCut
from seckill.report.verdicts import Findings

DECISIONS, ORDERS = "inventory.decisions", "order.events"
REQUESTED, RELEASED = "PurchaseRequested", "UnitsReleased"
STATES = {
    "PENDING_PAYMENT": "OrderPlaced",
    "PAID": "OrderPaid",
    "EXPIRED": "OrderExpired",
    "CANCELLED": "OrderCancelled",
    "REFUNDED": "OrderRefunded",
    "NOT_PLACED": "OrderNotPlaced",
}
"""The event that an order publishes when it enters a state, which happens once."""


class EventInLog(NamedTuple):
    topic: str
    position: RecordPosition
    kind: str
    event_id: Id


def statistics_match(evidence: Evidence, findings: Findings) -> None:
    """I22. Spark's counts by partition and kind equal the events in the log up to Spark's own cut. If Spark has counted
    everything, their sums equal Postgres: decided requests, decisions by result, orders by state, and revenue."""
    ends = {(log.topic, log.partition): log for log in evidence.partition_logs if log.cut > log.start}
    whole = False
    for run in sorted({row.run for row in evidence.spark_cuts}):
        cuts = {(row.topic, row.partition): row for row in evidence.spark_cuts if row.run == run}
        _compare_with_log(evidence, findings, run, cuts)
        behind = [key for key, log in ends.items() if key not in cuts or cuts[key].end < log.cut]
        if behind:
            findings.facts[f"partitions that the {run} run has not read to the end"] = len(behind)
        elif not evidence.unfinished and all(cuts[key].start <= log.start for key, log in ends.items()):
            _compare_with_database(evidence, findings, run)
            whole = True
    if not whole:
        findings.unknown.append("no Spark run has read everything; run `seckill stats replay` when the stack is idle")


def _compare_with_log(evidence: Evidence, findings: Findings, run: str, cuts: dict[tuple[str, int], SparkCut]) -> None:
    """Counts may differ by the number of dead letters, because only one of the two may be able to read such a
    record."""
    there: dict[tuple[str, int, str], set[Id]] = defaultdict(set)
    for record in _events(evidence):
        cut = cuts.get((record.topic, record.position.partition))
        if cut is not None and cut.start <= record.position.offset < cut.end:
            there[record.topic, record.position.partition, record.kind].add(record.event_id)
    counted = {(row.topic, row.partition, row.kind): row.events for row in evidence.spark_counts if row.run == run}
    dead: dict[tuple[str, int], int] = defaultdict(int)
    for topic, place in {(letter.topic, letter.position) for letter in evidence.dead_letters}:
        dead[topic, place.partition] += 1
    units = {
        (row.topic, row.partition, row.kind): (row.units, row.amount) for row in evidence.spark_counts if row.run == run
    }
    for key, whole in _contents(evidence, cuts).items():
        findings.checked += 1
        if key in units and not dead[key[:2]] and units[key] != whole:
            findings.add_violation(
                f"{run}: {units[key]} units and money for {key[2]} in {key[0]}-{key[1]}, instead of {whole}"
            )
    _check_ranges(evidence, findings, run, cuts)
    for key in sorted(there.keys() | counted.keys()):
        topic, partition, kind = key
        findings.checked += 1
        read, mine = len(there.get(key, ())), counted.get(key, 0)
        if abs(read - mine) > dead[topic, partition]:
            findings.add_violation(f"{run}: {mine} {kind} events in {topic}-{partition}, instead of {read}")


def _check_ranges(evidence: Evidence, findings: Findings, run: str, cuts: dict[tuple[str, int], SparkCut]) -> None:
    logs = {(log.topic, log.partition): log for log in evidence.partition_logs}
    for (topic, partition), cut in cuts.items():
        log = logs.get((topic, partition))
        if log is not None and (log.start, log.cut) == (cut.start, cut.end) and log.records != cut.records:
            findings.add_violation(f"{run}: {cut.records} records in {topic}-{partition}, instead of {log.records}")
        elif not 0 <= cut.start <= cut.end or (log is not None and cut.end > log.cut and not evidence.unfinished):
            findings.add_violation(
                f"{run}: counted the impossible range [{cut.start}, {cut.end}) of {topic}-{partition}"
            )


def _contents(evidence: Evidence, cuts: dict[tuple[str, int], SparkCut]) -> dict[tuple[str, int, str], tuple[int, int]]:
    """Units and money of the distinct events below Spark's cuts, for messages that state both."""
    found: dict[tuple[str, int, str], tuple[int, int]] = {}
    seen: set[Id] = set()

    def add(topic: str, place: RecordPosition, kind: str, event_id: Id, units: int | None, amount: int) -> None:
        cut = cuts.get((topic, place.partition))
        if cut is not None and cut.start <= place.offset < cut.end and event_id not in seen and units is not None:
            seen.add(event_id)
            key = (topic, place.partition, kind)
            before = found.get(key, (0, 0))
            found[key] = (before[0] + units, before[1] + amount)

    for request in evidence.requests:
        add(request.position.topic, request.position, REQUESTED, request.request_id, request.quantity, 0)
    for decided in evidence.decision_events:
        add(DECISIONS, decided.position, decided.decision, decided.event_id, decided.quantity, 0)
    for changed in evidence.order_events:
        add(ORDERS, changed.position, changed.event, changed.event_id, changed.quantity, changed.amount or 0)
    return found


def _events(evidence: Evidence) -> Iterator[EventInLog]:
    for request in evidence.requests:
        yield EventInLog(request.position.topic, request.position, REQUESTED, request.request_id)
    for decided in evidence.decision_events:
        yield EventInLog(DECISIONS, decided.position, decided.decision, decided.event_id)
    for changed in evidence.order_events:
        yield EventInLog(ORDERS, changed.position, changed.event, changed.event_id)


def _compare_with_database(evidence: Evidence, findings: Findings, run: str) -> None:
    """Compare with the database: by partition where a row has its position in the log, else in total."""
    mine: dict[tuple[str, str, int | None], int] = defaultdict(int)
    for row in evidence.spark_counts:
        if row.run == run:
            mine[row.topic, row.kind, row.partition if row.topic in REQUEST_TOPICS else None] += row.events
    books: dict[tuple[str, str, int | None], int] = defaultdict(int)
    for decided in evidence.decisions:
        books[decided.position.topic, REQUESTED, decided.position.partition] += 1
        books[DECISIONS, decided.decision, None] += 1
    undecided: dict[tuple[str, int], int] = defaultdict(int)
    for place in evidence.dead_request_by_position:
        undecided[place.topic, place.partition] += 1
    for change in evidence.transitions:
        books[ORDERS, STATES[change.after], None] += 1
    for key in sorted(mine.keys() | books.keys(), key=str):
        topic, kind, partition = key
        if topic in REQUEST_TOPICS or kind in STATES.values() or (topic == DECISIONS and kind != RELEASED):
            findings.checked += 1
            spared = undecided[topic, partition] if partition is not None else 0
            if abs(mine[key] - books[key]) > spared:
                where = "" if partition is None else f" of partition {partition}"
                findings.add_violation(f"{run}: {mine[key]} {kind}{where}, but the database has {books[key]}")
    revenue = sum(row.amount for row in evidence.spark_counts if row.run == run and row.kind == "OrderPaid")
    amounts = {order.id: order.amount for order in evidence.orders}
    paid = sum(amounts.get(change.order_id, 0) for change in evidence.transitions if change.after == "PAID")
    findings.checked += 1
    if revenue != paid:
        findings.add_violation(f"{run}: revenue is {revenue}, but the paid orders amount to {paid}")
