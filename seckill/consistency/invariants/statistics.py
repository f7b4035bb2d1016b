"""Statistics: what Spark has counted is what is there, by its own cut of every partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from seckill.consistency.counted import CountedTo
from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
from seckill.consistency.rows import Place
from seckill.consistency.verdicts import Found
from seckill.topics import QUEUES

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
"""Each order comes into a state once, and says so once."""


class Said(NamedTuple):
    topic: str
    place: Place
    kind: str
    event_id: Id


def statistics_tie(evidence: Evidence, found: Found) -> None:
    """I22. Spark's counts, of each partition and kind, are those of the log up to Spark's own cut; where this is the
    end of the log, their sums are those of Postgres: requests decided, decisions by class, orders by state, money."""
    ends = {(log.topic, log.partition): log for log in evidence.logs if log.cut > log.start}
    whole = False
    for run in sorted({row.run for row in evidence.counted_to}):
        cuts = {(row.topic, row.partition): row for row in evidence.counted_to if row.run == run}
        _against_the_log(evidence, found, run, cuts)
        behind = [key for key, log in ends.items() if key not in cuts or cuts[key].end < log.cut]
        if behind:
            found.facts[f"partitions that {run} has not read to the end"] = len(behind)
        elif not evidence.under_way and all(cuts[key].start <= log.start for key, log in ends.items()):
            _against_the_books(evidence, found, run)
            whole = True
    if not whole:
        found.unknown.append("no run of Spark has read everything: `seckill stats replay`, when all is worked off")


def _against_the_log(evidence: Evidence, found: Found, run: str, cuts: dict[tuple[str, int], CountedTo]) -> None:
    """A dead letter may be readable to one and not to the other: so far they may differ, and no further."""
    there: dict[tuple[str, int, str], set[Id]] = defaultdict(set)
    for said in _said(evidence):
        cut = cuts.get((said.topic, said.place.partition))
        if cut is not None and cut.start <= said.place.offset < cut.end:
            there[said.topic, said.place.partition, said.kind].add(said.event_id)
    counted = {(row.topic, row.partition, row.kind): row.events for row in evidence.counted if row.run == run}
    dead: dict[tuple[str, int], int] = defaultdict(int)
    for topic, place in {(letter.topic, letter.place) for letter in evidence.dead}:
        dead[topic, place.partition] += 1
    units = {
        (row.topic, row.partition, row.kind): (row.units, row.amount) for row in evidence.counted if row.run == run
    }
    for key, whole in _contents(evidence, cuts).items():
        found.looked_at += 1
        if key in units and not dead[key[:2]] and units[key] != whole:
            found.say_wrong(
                f"{run}: {units[key]} units and money of {key[2]} in {key[0]}-{key[1]}, where it is {whole}"
            )
    _as_far_as_it_says(evidence, found, run, cuts)
    for key in sorted(there.keys() | counted.keys()):
        topic, partition, kind = key
        found.looked_at += 1
        read, mine = len(there.get(key, ())), counted.get(key, 0)
        if abs(read - mine) > dead[topic, partition]:
            found.say_wrong(f"{run}: {mine} events {kind} in {topic}-{partition}, where there are {read}")


def _as_far_as_it_says(evidence: Evidence, found: Found, run: str, cuts: dict[tuple[str, int], CountedTo]) -> None:
    logs = {(log.topic, log.partition): log for log in evidence.logs}
    for (topic, partition), cut in cuts.items():
        log = logs.get((topic, partition))
        if log is not None and (log.start, log.cut) == (cut.start, cut.end) and log.records != cut.records:
            found.say_wrong(f"{run}: {cut.records} records of {topic}-{partition}, where there are {log.records}")
        elif not 0 <= cut.start <= cut.end or (log is not None and cut.end > log.cut and not evidence.under_way):
            found.say_wrong(f"{run}: counted [{cut.start}, {cut.end}) of {topic}-{partition}")


def _contents(
    evidence: Evidence, cuts: dict[tuple[str, int], CountedTo]
) -> dict[tuple[str, int, str], tuple[int, int]]:
    """Units and money of the distinct events below Spark's cuts, where the messages say both."""
    found: dict[tuple[str, int, str], tuple[int, int]] = {}
    seen: set[Id] = set()

    def add(topic: str, place: Place, kind: str, event_id: Id, units: int | None, amount: int) -> None:
        cut = cuts.get((topic, place.partition))
        if cut is not None and cut.start <= place.offset < cut.end and event_id not in seen and units is not None:
            seen.add(event_id)
            key = (topic, place.partition, kind)
            before = found.get(key, (0, 0))
            found[key] = (before[0] + units, before[1] + amount)

    for asked in evidence.requested:
        add(asked.place.topic, asked.place, REQUESTED, asked.request_id, asked.quantity, 0)
    for decided in evidence.decisions_said:
        add(DECISIONS, decided.place, decided.decision, decided.event_id, decided.quantity, 0)
    for changed in evidence.orders_said:
        add(ORDERS, changed.place, changed.event, changed.event_id, changed.quantity, changed.amount or 0)
    return found


def _said(evidence: Evidence) -> Iterator[Said]:
    for asked in evidence.requested:
        yield Said(asked.place.topic, asked.place, REQUESTED, asked.request_id)
    for decided in evidence.decisions_said:
        yield Said(DECISIONS, decided.place, decided.decision, decided.event_id)
    for changed in evidence.orders_said:
        yield Said(ORDERS, changed.place, changed.event, changed.event_id)


def _against_the_books(evidence: Evidence, found: Found, run: str) -> None:
    """What SQL says of the same: by partition where a row knows its place in the log, in sum where it does not."""
    mine: dict[tuple[str, str, int | None], int] = defaultdict(int)
    for row in evidence.counted:
        if row.run == run:
            mine[row.topic, row.kind, row.partition if row.topic in QUEUES else None] += row.events
    books: dict[tuple[str, str, int | None], int] = defaultdict(int)
    for decided in evidence.decided:
        books[decided.place.topic, REQUESTED, decided.place.partition] += 1
        books[DECISIONS, decided.decision, None] += 1
    undecided: dict[tuple[str, int], int] = defaultdict(int)
    for place in evidence.dead_requests:
        undecided[place.topic, place.partition] += 1
    for change in evidence.transitions:
        books[ORDERS, STATES[change.after], None] += 1
    for key in sorted(mine.keys() | books.keys(), key=str):
        topic, kind, partition = key
        if topic in QUEUES or kind in STATES.values() or (topic == DECISIONS and kind != RELEASED):
            found.looked_at += 1
            spared = undecided[topic, partition] if partition is not None else 0
            if abs(mine[key] - books[key]) > spared:
                where = "" if partition is None else f" of partition {partition}"
                found.say_wrong(f"{run}: {mine[key]} {kind}{where}, and the database has {books[key]}")
    revenue = sum(row.amount for row in evidence.counted if row.run == run and row.kind == "OrderPaid")
    amounts = {order.id: order.amount for order in evidence.orders}
    paid = sum(amounts.get(change.order_id, 0) for change in evidence.transitions if change.after == "PAID")
    found.looked_at += 1
    if revenue != paid:
        found.say_wrong(f"{run}: {revenue} were paid, and the orders say {paid}")
