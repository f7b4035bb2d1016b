"""Requests: everyone who was accepted is in the log, everything in the log is decided, once, and everybody agrees."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id, number
from seckill.consistency.rows import RESERVED, Place
from seckill.consistency.verdicts import Found, Subject

DIGITS = 10**12


def none_lost(evidence: Evidence, found: Found) -> None:
    """I7. Every 202 names a place in the log, and the request stands there, as it was asked for; one key of a buyer is
    one request, and no other answer names one."""
    keys: dict[tuple[str, int, str], Id] = {}
    named: dict[Id, tuple[str, int, str]] = {}
    for attempt in evidence.attempts:
        if attempt.status != 202:
            if attempt.request_id is not None:
                found.say_wrong(f"answered {attempt.status}, with a request", Subject(attempt.request_id))
            continue
        found.looked_at += 1
        key = (attempt.user_id, attempt.sale_id, attempt.key)
        if attempt.request_id is not None and keys.setdefault(key, attempt.request_id) != attempt.request_id:
            found.say_wrong("two requests under one key", Subject(attempt.request_id))
        elif attempt.request_id is not None and named.setdefault(attempt.request_id, key) != key:
            found.say_wrong("one request under two keys", Subject(attempt.request_id))
        if attempt.request_id is None or attempt.partition is None or attempt.offset is None:
            found.say_wrong("a 202 that names no request or no place", Subject(user_id=attempt.user_id))
            continue
        said = evidence.requested_at.get(Place(attempt.partition, attempt.offset, attempt.topic))
        subject = Subject(attempt.request_id, None, attempt.user_id)
        where = f"{attempt.topic}-{attempt.partition}@{attempt.offset}"
        if said is None:
            found.say_missing(f"acknowledged at {where}, where nothing stands", subject)
        elif said.request_id != attempt.request_id or said.user_id != attempt.user_id:
            found.say_wrong(f"acknowledged at {where}, where request {said.request_id} stands", subject)
        elif (said.sale_id, said.quantity) != (attempt.sale_id, attempt.quantity):
            asked = f"{attempt.quantity} of sale {attempt.sale_id}"
            found.say_wrong(f"asked for {asked}, and {where} has {said.quantity} of sale {said.sale_id}", subject)


def no_phantom(evidence: Evidence, found: Found) -> None:
    """I8. Whatever stands in the log was sent by somebody: acknowledged, or with an outcome he does not know."""
    acked: dict[Id, str] = {}
    unknown: dict[tuple[str, int], set[str]] = defaultdict(set)
    for attempt in evidence.attempts:
        if attempt.status == 202 and attempt.request_id is not None:
            acked[attempt.request_id] = attempt.user_id
        elif attempt.status == 0 or attempt.status >= 500:
            unknown[attempt.user_id, attempt.sale_id].add(attempt.key)
    unacked: Counter[tuple[str, int]] = Counter()
    for request, said in evidence.first_requested.items():
        if said.sale_id not in evidence.crowd_sales:
            continue
        found.looked_at += 1
        subject = Subject(request, None, said.user_id)
        if request in acked:
            if acked[request] != said.user_id:
                found.say_wrong(f"sent by {acked[request]}, and stands there as of {said.user_id}", subject)
            continue
        unacked[said.user_id, said.sale_id] += 1
        if unacked[said.user_id, said.sale_id] > len(unknown[said.user_id, said.sale_id]):
            found.say_missing("nobody sent it", subject)
    found.facts["in the log, unknown to their senders"] = unacked.total()


def decided_once(evidence: Evidence, found: Found) -> None:
    """I9. Every request in the log is decided exactly once or lies among the dead letters; one decision of it is
    published; the classes add up, and counts, units and a hash of all identities tie at every stage."""
    decided = evidence.decision_of
    dead = {
        said.request_id for place, said in evidence.requested_at.items() if place in evidence.dead_requests
    } - decided.keys()
    for request, count in Counter(row.request_id for row in evidence.decided).items():
        if count > 1:
            found.say_wrong(f"decided {count} times", Subject(request))
    for request, said in evidence.first_requested.items():
        found.looked_at += 1
        subject = Subject(request, None, said.user_id)
        row = decided.get(request)
        if row is None:
            if request not in dead:
                found.say_missing("never decided, and no dead letter", subject)
        elif (row.user_id, row.sale_id, row.sku, row.quantity) != (
            said.user_id,
            said.sale_id,
            said.sku,
            said.quantity,
        ):
            found.say_wrong("decided as something else than it was", subject)
        elif row.place != said.place and said.place not in evidence.dead_requests:  # else: replayed
            found.say_wrong(f"decided for {row.place}, but it first stands at {said.place}", subject)
    for request in decided.keys() - evidence.first_requested.keys():
        found.say_missing("decided, and not in the log", Subject(request))
    _published_once(evidence, found)
    _tie(evidence, found, dead)


def _published_once(evidence: Evidence, found: Found) -> None:
    said: dict[Id, tuple[Id, str]] = {}
    for event in evidence.decisions_said:
        if event.decision == "UnitsReleased":
            continue
        known = said.setdefault(event.request_id, (event.event_id, event.decision))
        if known[0] != event.event_id:
            found.say_wrong(f"two decisions are published: {known[1]} and {event.decision}", Subject(event.request_id))
    for request, row in evidence.decision_of.items():
        published = said.get(request)
        if published is None:
            found.say_missing(f"{row.decision}, and that is not published", Subject(request))
        elif published[1] != row.decision:
            found.say_wrong(f"decided {row.decision}, published {published[1]}", Subject(request))
    for request in said.keys() - evidence.decision_of.keys():
        found.say_missing("a decision is published that nobody took", Subject(request))


def _tie(evidence: Evidence, found: Found, dead: set[Id]) -> None:
    """Control totals, as bookkeepers have them: a difference anywhere shows, whoever is to blame."""
    classes = Counter(row.decision for row in evidence.decided)
    for name in sorted(classes):
        found.facts[f"decided {name}"] = classes[name]
    if dead:
        found.facts["dead letters, undecided"] = len(dead)
    in_log = len(evidence.first_requested)
    if in_log != sum(classes.values()) + len(dead):
        found.say_missing(f"{in_log} in the log, {sum(classes.values())} decided and {len(dead)} dead letters")
    published = {row.request_id for row in evidence.decisions_said if row.decision != "UnitsReleased"}
    stages = {
        "in the log": evidence.first_requested.keys() - dead,
        "decided": evidence.decision_of.keys(),
        "published": published,
        "read by orders": {row.request_id for row in evidence.decisions_read},
        "shown to buyers": {row.request_id for row in evidence.outcomes},
    }
    _compare(found, stages)
    units = {
        "decided RESERVED": _units(
            (row.request_id, row.quantity) for row in evidence.decided if row.decision == RESERVED
        ),
        "reserved in the ledger": _units(
            (row.request_id, row.units)
            for row in evidence.ledger
            if row.kind == "reserve" and row.request_id is not None
        ),
        "held": _units((row.request_id, row.quantity) for row in evidence.holds),
        "ordered": _units((row.request_id, row.quantity) for row in evidence.orders),
    }
    _compare(found, {name: requests.keys() for name, requests in units.items()})
    totals = {name: sum(requests.values()) for name, requests in units.items()}
    if len(set(totals.values())) > 1:
        found.say_missing("units do not tie: " + ", ".join(f"{name} {total}" for name, total in totals.items()))


def _units(pairs: Iterable[tuple[Id, int]]) -> dict[Id, int]:
    return dict(pairs)


def _compare(found: Found, stages: Mapping[str, Set[Id]]) -> None:
    first, whole = next(iter(stages.items()))
    control = _control(whole)
    tied = {name: control if requests == whole else _control(requests) for name, requests in stages.items()}
    if len(set(tied.values())) > 1:
        shown = ", ".join(f"{name} {count} (hash {total:012d})" for name, (count, total) in tied.items())
        found.say_missing(f"stages do not tie: {shown}")
    count, total = control
    found.facts[f"control total, {first} → {list(tied)[-1]}"] = f"{count} (hash {total:012d})"


def _control(requests: Set[Id]) -> tuple[int, int]:
    return len(requests), sum(map(number, requests)) % DIGITS
