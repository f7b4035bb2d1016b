"""Check requests: an accepted request is in the log, and every request in the log is decided once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set

from seckill.report.evidence import Evidence
from seckill.report.identity import Id, number
from seckill.report.rows import RESERVED, RecordPosition
from seckill.report.verdicts import Findings, Subject

DIGITS = 10**12


def no_request_lost(evidence: Evidence, findings: Findings) -> None:
    """I7. Every 202 names a position in the log, and the log has the request there with the quantity that was asked
    for. An idempotency key of a buyer stands for one request, and no other answer names a request."""
    keys: dict[tuple[str, int, str], Id] = {}
    named: dict[Id, tuple[str, int, str]] = {}
    for attempt in evidence.attempts:
        if attempt.status != 202:
            if attempt.request_id is not None:
                findings.add_violation(f"answered {attempt.status}, but with a request id", Subject(attempt.request_id))
            continue
        findings.checked += 1
        key = (attempt.user_id, attempt.sale_id, attempt.key)
        if attempt.request_id is not None and keys.setdefault(key, attempt.request_id) != attempt.request_id:
            findings.add_violation("two requests under one key", Subject(attempt.request_id))
        elif attempt.request_id is not None and named.setdefault(attempt.request_id, key) != key:
            findings.add_violation("one request under two keys", Subject(attempt.request_id))
        if attempt.request_id is None or attempt.partition is None or attempt.offset is None:
            findings.add_violation("a 202 without a request id or a position", Subject(user_id=attempt.user_id))
            continue
        record = evidence.request_by_position.get(RecordPosition(attempt.topic, attempt.partition, attempt.offset))
        subject = Subject(attempt.request_id, None, attempt.user_id)
        where = f"{attempt.topic}-{attempt.partition}@{attempt.offset}"
        if record is None:
            findings.add_missing(f"acknowledged at {where}, where the log has no record", subject)
        elif record.request_id != attempt.request_id or record.user_id != attempt.user_id:
            findings.add_violation(f"acknowledged at {where}, where the log has request {record.request_id}", subject)
        elif (record.sale_id, record.quantity) != (attempt.sale_id, attempt.quantity):
            requested = f"{attempt.quantity} in sale {attempt.sale_id}"
            findings.add_violation(
                f"asked for {requested}, but {where} has {record.quantity} in sale {record.sale_id}", subject
            )


def no_phantom_request(evidence: Evidence, findings: Findings) -> None:
    """I8. Every request in the log was sent by a buyer, who either got a 202 or an answer that left the outcome
    open."""
    acked: dict[Id, str] = {}
    unknown: dict[tuple[str, int], set[str]] = defaultdict(set)
    for attempt in evidence.attempts:
        if attempt.status == 202 and attempt.request_id is not None:
            acked[attempt.request_id] = attempt.user_id
        elif attempt.status == 0 or attempt.status >= 500:
            unknown[attempt.user_id, attempt.sale_id].add(attempt.key)
    unacked: Counter[tuple[str, int]] = Counter()
    for request, record in evidence.first_request_by_id.items():
        if record.sale_id not in evidence.crowd_sales:
            continue
        findings.checked += 1
        subject = Subject(request, None, record.user_id)
        if request in acked:
            if acked[request] != record.user_id:
                findings.add_violation(f"sent by {acked[request]}, but in the log for {record.user_id}", subject)
            continue
        unacked[record.user_id, record.sale_id] += 1
        if unacked[record.user_id, record.sale_id] > len(unknown[record.user_id, record.sale_id]):
            findings.add_missing("in the log, but no buyer sent it", subject)
    findings.facts["in the log without an acknowledgement"] = unacked.total()


def decided_once(evidence: Evidence, findings: Findings) -> None:
    """I9. Every request in the log is decided exactly once or is a dead letter, and its decision is published once. The
    decisions add up, and counts, units and a hash over all request ids are equal at every stage."""
    decided = evidence.decision_by_request
    dead = {
        record.request_id
        for place, record in evidence.request_by_position.items()
        if place in evidence.dead_request_by_position
    } - decided.keys()
    for request, count in Counter(row.request_id for row in evidence.decisions).items():
        if count > 1:
            findings.add_violation(f"decided {count} times", Subject(request))
    for request, record in evidence.first_request_by_id.items():
        findings.checked += 1
        subject = Subject(request, None, record.user_id)
        row = decided.get(request)
        if row is None:
            if request not in dead:
                findings.add_missing("skipped without a decision or a dead letter", subject)
        elif (row.user_id, row.sale_id, row.sku, row.quantity) != (
            record.user_id,
            record.sale_id,
            record.sku,
            record.quantity,
        ):
            findings.add_violation("the decision and the request have different contents", subject)
        elif (
            row.position != record.position and record.position not in evidence.dead_request_by_position
        ):  # else: replayed
            findings.add_violation(f"decided at {row.position}, but its first record is at {record.position}", subject)
    for request in decided.keys() - evidence.first_request_by_id.keys():
        findings.add_missing("decided, but not in the log", Subject(request))
    _check_published_once(evidence, findings)
    _compare_stages(evidence, findings, dead)


def _check_published_once(evidence: Evidence, findings: Findings) -> None:
    first: dict[Id, tuple[Id, str]] = {}
    for event in evidence.decision_events:
        if event.decision == "UnitsReleased":
            continue
        known = first.setdefault(event.request_id, (event.event_id, event.decision))
        if known[0] != event.event_id:
            findings.add_violation(
                f"two decisions were published: {known[1]} and {event.decision}", Subject(event.request_id)
            )
    for request, row in evidence.decision_by_request.items():
        published = first.get(request)
        if published is None:
            findings.add_missing(f"decided {row.decision}, which was not published", Subject(request))
        elif published[1] != row.decision:
            findings.add_violation(f"decided {row.decision}, but published {published[1]}", Subject(request))
    for request in first.keys() - evidence.decision_by_request.keys():
        findings.add_missing("a decision was published that inventory did not take", Subject(request))


def _compare_stages(evidence: Evidence, findings: Findings, dead: set[Id]) -> None:
    """Compare control totals, as bookkeepers do: any difference between stages shows, whatever caused it."""
    classes = Counter(row.decision for row in evidence.decisions)
    for name in sorted(classes):
        findings.facts[f"decided {name}"] = classes[name]
    if dead:
        findings.facts["dead letters, undecided"] = len(dead)
    in_log = len(evidence.first_request_by_id)
    if in_log != sum(classes.values()) + len(dead):
        findings.add_missing(
            f"{in_log} requests in the log, but {sum(classes.values())} decisions and {len(dead)} dead letters"
        )
    published = {row.request_id for row in evidence.decision_events if row.decision != "UnitsReleased"}
    stages = {
        "in the log": evidence.first_request_by_id.keys() - dead,
        "decided": evidence.decision_by_request.keys(),
        "published": published,
        "consumed by orders": {row.request_id for row in evidence.consumed_decisions},
        "shown to buyers": {row.request_id for row in evidence.outcomes},
    }
    _compare_ids(findings, stages)
    units = {
        "decided RESERVED": _units(
            (row.request_id, row.quantity) for row in evidence.decisions if row.decision == RESERVED
        ),
        "reserved in the ledger": _units(
            (row.request_id, row.units)
            for row in evidence.ledger
            if row.kind == "reserve" and row.request_id is not None
        ),
        "held": _units((row.request_id, row.quantity) for row in evidence.holds),
        "ordered": _units((row.request_id, row.quantity) for row in evidence.orders),
    }
    _compare_ids(findings, {name: requests.keys() for name, requests in units.items()})
    totals = {name: sum(requests.values()) for name, requests in units.items()}
    if len(set(totals.values())) > 1:
        findings.add_missing(
            "units differ between stages: " + ", ".join(f"{name} {total}" for name, total in totals.items())
        )


def _units(pairs: Iterable[tuple[Id, int]]) -> dict[Id, int]:
    return dict(pairs)


def _compare_ids(findings: Findings, stages: Mapping[str, Set[Id]]) -> None:
    first, whole = next(iter(stages.items()))
    control = _control(whole)
    tied = {name: control if requests == whole else _control(requests) for name, requests in stages.items()}
    if len(set(tied.values())) > 1:
        shown = ", ".join(f"{name} {count} (hash {total:012d})" for name, (count, total) in tied.items())
        findings.add_missing(f"requests differ between stages: {shown}")
    count, total = control
    findings.facts[f"control total, {first} → {list(tied)[-1]}"] = f"{count} (hash {total:012d})"


def _control(requests: Set[Id]) -> tuple[int, int]:
    return len(requests), sum(map(number, requests)) % DIGITS
