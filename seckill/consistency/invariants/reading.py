"""Reading: no offset is skipped, nothing read twice has an effect twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from operator import attrgetter

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
from seckill.consistency.rows import CHANNELS, TOLD, Place
from seckill.consistency.verdicts import Found, Subject
from seckill.topics import TOPICS

SPARK = "analytics"
"""Keeps its offsets in its own checkpoint."""
DECISIONS, ORDERS = "inventory.decisions", "order.events"


def no_gap(evidence: Evidence, found: Found) -> None:
    """I11. Every record below a group's offset has left its row with that group, or lies among its dead letters;
    what a group committed to the broker is never ahead of its row, and no row is ahead of the log. Each record stands
    in its own place between the log's start and its end, and as many were read as there are."""
    _read_whole(evidence, found)
    reached = {(row.group, row.topic, row.partition): row.next_offset for row in evidence.offsets}
    for log in evidence.logs:
        for group in TOPICS[log.topic].readers if log.topic in TOPICS else ():
            next_offset = reached.get((group, log.topic, log.partition))
            if next_offset is not None and next_offset > log.cut and not evidence.under_way:
                found.say_wrong(f"{group} has read {log.topic}-{log.partition} to {next_offset}; it ends at {log.cut}")
            elif group != SPARK and (next_offset or 0) < log.cut:
                found.say_missing(f"{group} has read {log.topic}-{log.partition} to {next_offset or 0} of {log.cut}")
    for row in evidence.committed:
        if row.next_offset > reached.get((row.group, row.topic, row.partition), 0) and not evidence.under_way:
            where = f"{row.topic}-{row.partition}"
            found.say_wrong(f"{row.group} has committed {row.next_offset} of {where}, ahead of its own row")
    dead = {(letter.group, letter.topic, letter.place) for letter in evidence.dead}
    seen = {row.place for row in evidence.decided} | {row.place for row in evidence.redelivered}

    def look(group: str, topic: str, place: Place, is_known: bool, request: Id) -> None:
        found.looked_at += 1
        if is_known or (group, topic, place) in dead:
            return
        where = f"{topic}-{place.partition}@{place.offset}"
        if place.offset < reached.get((group, topic, place.partition), 0):
            found.say_wrong(f"{group} went past {where} and left no trace of it", Subject(request))
        else:
            found.say_missing(f"{group} has not read {where}", Subject(request))

    for said in evidence.requested:
        look("inventory", said.place.topic, said.place, said.place in seen, said.request_id)
    read = {row.event_id for row in evidence.decisions_read}
    shown = {row.request_id for row in evidence.outcomes}
    for decision in evidence.decisions_said:
        if decision.decision != "UnitsReleased":
            look("orders", DECISIONS, decision.place, decision.event_id in read, decision.request_id)
        look("gateway.outcomes", DECISIONS, decision.place, decision.request_id in shown, decision.request_id)
    settled = {row.event_id for row in evidence.settled}
    delivered = {(row.event_id, row.channel) for row in evidence.deliveries}
    for event in evidence.orders_said:
        look("inventory.settlement", ORDERS, event.place, event.event_id in settled, event.request_id)
        if event.event in TOLD and "N" not in evidence.off:
            for channel in CHANNELS:
                is_known = (event.event_id, channel) in delivered
                look(f"notify.{channel}", ORDERS, event.place, is_known, event.request_id)
    holes = sum(log.cut - log.start - log.records for log in evidence.logs)
    found.facts["offsets without a record"] = holes


def _read_whole(evidence: Evidence, found: Found) -> None:
    places: dict[tuple[str, int], set[int]] = defaultdict(set)
    counts: Counter[tuple[str, int]] = Counter()
    for topic, place in _records(evidence):
        places[topic, place.partition].add(place.offset)
        counts[topic, place.partition] += 1
    logs = {(log.topic, log.partition): log for log in evidence.logs}
    for key, offsets in places.items():
        log = logs.get(key)
        where = f"{key[0]}-{key[1]}"
        if log is None:
            found.say_wrong(f"records of {where}, which was not read")
        elif len(offsets) != counts[key]:
            found.say_wrong(f"{counts[key]} records of {where} stand in {len(offsets)} places")
        elif min(offsets) < log.start or max(offsets) >= log.cut:
            found.say_wrong(f"a record of {where} outside [{log.start}, {log.cut})")
    for log in evidence.logs:
        found.looked_at += 1
        if log.records != counts[log.topic, log.partition]:
            count = counts[log.topic, log.partition]
            found.say_wrong(f"{log.records} records of {log.topic}-{log.partition} were read, and {count} are there")
        if log.start or log.topic not in TOPICS:
            found.say_wrong(f"{log.topic}-{log.partition} begins at {log.start}")
    by_place = {said.place: said.request_id for said in evidence.requested}
    for row in evidence.redelivered:
        if row.request_id != by_place.get(row.place, row.request_id):
            found.say_wrong(f"delivered again at {row.place}, where another request stands", Subject(row.request_id))


def _records(evidence: Evidence) -> Iterator[tuple[str, Place]]:
    yield from ((said.place.topic, said.place) for said in evidence.requested)
    yield from ((DECISIONS, said.place) for said in evidence.decisions_said)
    yield from ((ORDERS, said.place) for said in evidence.orders_said)
    yield from ((bad.topic, bad.place) for bad in evidence.unreadable)


def one_effect(evidence: Evidence, found: Found) -> None:
    """I13. One effect for each cause, however often it was delivered: attempts beyond the first are counted. No table
    has two rows of one key."""
    _one_row_a_key(evidence, found)
    _once(found, "order", ((order.request_id, order.request_id) for order in evidence.orders))
    _once(
        found,
        "change of an order",
        (((change.order_id, change.after), None) for change in evidence.transitions),
    )
    _once(
        found,
        "ledger entry",
        (((entry.kind, entry.cause), entry.request_id) for entry in evidence.ledger),
    )
    _once(
        found,
        "effect in a sink",
        (((line.event_id, line.channel), None) for line in evidence.sink if line.what == "effect"),
    )
    _once(
        found,
        "movement of money",
        (((line.payment_id, line.what), None) for line in evidence.provider if line.what in ("captured", "refunded")),
    )
    events: dict[tuple[Id, str], set[Id]] = defaultdict(set)
    for said in evidence.orders_said:
        events[said.order_id, said.event].add(said.event_id)
    for released in evidence.decisions_said:
        if released.decision == "UnitsReleased":
            events[released.request_id, released.decision].add(released.event_id)
    requests = {order.id: order.request_id for order in evidence.orders}
    for (subject, name), ids in events.items():
        found.looked_at += 1
        if len(ids) > 1 and name != "LatePaymentRefunded":
            found.say_wrong(f"{len(ids)} different events {name}", Subject(requests.get(subject, subject)))
    again = {
        "requests delivered again": len(evidence.redelivered),
        "decisions published again": len(evidence.decisions_said) - len({e.event_id for e in evidence.decisions_said}),
        "order events published again": len(evidence.orders_said) - len({e.event_id for e in evidence.orders_said}),
        "sinks told again": sum(line.what == "again" for line in evidence.sink),
    }
    found.facts |= again


KEYS: dict[str, tuple[str, ...]] = {
    "sales": ("id",), "stocks": ("id",), "holds": ("request_id",), "settled": ("event_id",), "orders": ("id",),
    "transitions": ("event_id",), "decisions_read": ("event_id",), "payments": ("id",), "callbacks": ("callback_id",),
    "deliveries": ("event_id", "channel"), "outcomes": ("request_id",), "redelivered": ("place",),
    "gates": ("stock_id",),
    "offsets": ("group", "topic", "partition"), "committed": ("group", "topic", "partition"),
    "logs": ("topic", "partition"), "dead": ("group", "place"), "counted_to": ("run", "topic", "partition"),
    "counted": ("run", "topic", "partition", "kind"),
}  # fmt: skip
"""What each row is known by."""


def _one_row_a_key(evidence: Evidence, found: Found) -> None:
    for field, columns in KEYS.items():
        rows = getattr(evidence, field)
        found.looked_at += len(rows)
        if len(set(map(attrgetter(*columns), rows))) < len(rows):
            found.say_wrong(f"two rows of one key among {field.replace('_', ' ')}")


def _once(found: Found, what: str, causes: Iterable[tuple[object, Id | None]]) -> None:
    counts: Counter[object] = Counter()
    for cause, request in causes:
        found.looked_at += 1
        counts[cause] += 1
        if counts[cause] == 2:
            shown = " ".join(str(part) for part in cause) if isinstance(cause, tuple) else str(cause)
            found.say_wrong(f"a second {what} for {shown}", Subject(request))
