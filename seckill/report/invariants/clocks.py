"""Check clocks: Redis, the broker, Postgres and the crowd agree about the time of each request."""

from __future__ import annotations

from collections import defaultdict

from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source
from seckill.report.identity import Id
from seckill.report.invariants.causality import check_causality
from seckill.report.rows import Attempt, RequestRecord
from seckill.report.verdicts import Findings, Subject

SKEW_MS = 5_000
"""The clocks of hosts that run NTP differ by less than this."""
TRANSIT_MS = 30_000
"""An admitted request reaches the log within this time, because the producer gives up after 10 s, or is sent again."""

Buyer = tuple[str, int]
"""A user and a sale."""


def clocks_agree(evidence: Evidence, findings: Findings) -> None:
    """I31. Times are plausible: a request is admitted while its buyer waits for the answer, reaches the log within 30 s
    of that or when it is sent again, and is decided afterwards. Nothing is dated before its cause or after the report.
    The clocks of different hosts may differ by 5 s."""
    sent = attempts_of(evidence)
    first_ms: list[int] = []
    for request, record in evidence.first_request_by_id.items():
        findings.checked += 1
        took_ms, subject = record.timestamp_ms - record.admitted_at_ms, Subject(request)
        first_ms.append(took_ms)
        if took_ms < -SKEW_MS:
            findings.add_violation(f"in the log {-took_ms} ms before it was admitted", subject)
        elif not is_in_time(evidence, findings, sent, record, record.admitted_at_ms):
            findings.add_violation(f"in the log {took_ms} ms after it was admitted, without a retry", subject)
        if record.deadline_ms <= record.admitted_at_ms:
            findings.add_violation("its deadline is before its admission", subject)
        attempts = sent.get((record.user_id, record.sale_id))
        if attempts and not any(_covers(attempt, record.admitted_at_ms, SKEW_MS) for attempt in attempts):
            findings.add_violation("admitted at a time when its buyer was not sending", subject)
    if first_ms and min(first_ms) > SKEW_MS:
        findings.add_violation(f"every request reached the log {min(first_ms)} ms or more after its admission")
    _decisions(evidence, findings)
    check_causality(evidence, findings, SKEW_MS)
    if first_ms:
        findings.facts["admission to log, min ms"] = min(first_ms)
        findings.facts["admission to log, max ms"] = max(first_ms)


def _decisions(evidence: Evidence, findings: Findings) -> None:
    decided: dict[Id, int] = {}
    entered: list[int] = []
    for row in evidence.decisions:
        findings.checked += 1
        decided[row.request_id] = row.decided_at_ms
        record = evidence.request_by_position.get(row.position)
        if record is not None and not evidence.was_dead_lettered(row.request_id):
            entered.append(row.decided_at_ms - record.timestamp_ms)
            if entered[-1] < -SKEW_MS:
                findings.add_violation(f"decided {-entered[-1]} ms before it was in the log", Subject(row.request_id))
    for entry in evidence.ledger:
        at_ms = decided.get(entry.request_id) if entry.request_id is not None else None
        if entry.kind == "reserve" and at_ms is not None and entry.at_ms > at_ms + SKEW_MS:
            findings.add_violation(f"decided at {at_ms}, but in the ledger at {entry.at_ms}", Subject(entry.request_id))
    if entered:
        findings.facts["log to decision, min ms"] = min(entered)
        findings.facts["log to decision, max ms"] = max(entered)


def attempts_of(evidence: Evidence) -> dict[Buyer, list[Attempt]]:
    found: dict[Buyer, list[Attempt]] = defaultdict(list)
    for attempt in evidence.attempts:
        found[attempt.user_id, attempt.sale_id].append(attempt)
    return found


def is_in_time(
    evidence: Evidence, findings: Findings, sent: dict[Buyer, list[Attempt]], record: RequestRecord, since_ms: int
) -> bool:
    """Whether the request reached the log soon after `since_ms`, or while an attempt to send it was running. If the
    attempts of its buyer are unknown, so is the answer."""
    if record.timestamp_ms <= since_ms + TRANSIT_MS:
        return True
    attempts = sent.get((record.user_id, record.sale_id))
    if not attempts and (record.sale_id not in evidence.crowd_sales or Source.CROWD in evidence.declared_off):
        findings.unknown.append("a request reached the log late, and the attempts of its buyer are unknown")
        return True
    return any(_covers(attempt, record.timestamp_ms, TRANSIT_MS) for attempt in attempts or ())


def _covers(attempt: Attempt, at_ms: int, slack_ms: int) -> bool:
    return attempt.at_ms - SKEW_MS <= at_ms <= attempt.at_ms + attempt.took_ms + slack_ms
