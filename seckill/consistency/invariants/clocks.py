"""Clocks: Redis admits, the log takes in, Postgres decides, the crowd watches: their times agree about each request."""

from __future__ import annotations

from collections import defaultdict

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
from seckill.consistency.invariants.causes import in_order_of_cause
from seckill.consistency.rows import Attempt, Requested
from seckill.consistency.verdicts import Found, Subject

SKEW_MS = 5_000
"""Clocks of hosts that are kept by NTP are closer than this."""
TRANSIT_MS = 30_000
"""A request that was admitted is in the log by then (a producer gives up after 10 s), or was sent again."""

Buyer = tuple[str, int]
"""A user and a sale."""


def clocks_agree(evidence: Evidence, found: Found) -> None:
    """I31. A request is admitted while its buyer waits for the answer, the log takes it in after that and within 30 s
    (or when it was sent again), and it is decided after the log took it; nothing that follows stands anywhere before
    its cause, or after the report. The clocks of different hosts may be 5 s apart."""
    sent = attempts_of(evidence)
    first_ms: list[int] = []
    for request, said in evidence.first_requested.items():
        found.looked_at += 1
        took_ms, subject = said.timestamp_ms - said.admitted_at_ms, Subject(request)
        first_ms.append(took_ms)
        if took_ms < -SKEW_MS:
            found.say_wrong(f"the log took it in {-took_ms} ms before it was admitted", subject)
        elif not is_in_time(evidence, found, sent, said, said.admitted_at_ms):
            found.say_wrong(
                f"the log took it in {took_ms} ms after it was admitted, and it was not sent again", subject
            )
        if said.deadline_ms <= said.admitted_at_ms:
            found.say_wrong("its deadline is before its admission", subject)
        asked = sent.get((said.user_id, said.sale_id))
        if asked and not any(_covers(attempt, said.admitted_at_ms, SKEW_MS) for attempt in asked):
            found.say_wrong("admitted at a time at which its buyer was not asking", subject)
    if first_ms and min(first_ms) > SKEW_MS:
        found.say_wrong(f"every request entered the log {min(first_ms)} ms or more after its admission")
    _decisions(evidence, found)
    in_order_of_cause(evidence, found, SKEW_MS)
    if first_ms:
        found.facts["from admission to log, least ms"] = min(first_ms)
        found.facts["from admission to log, most ms"] = max(first_ms)


def _decisions(evidence: Evidence, found: Found) -> None:
    decided: dict[Id, int] = {}
    entered: list[int] = []
    for row in evidence.decided:
        found.looked_at += 1
        decided[row.request_id] = row.decided_at_ms
        said = evidence.requested_at.get(row.place)
        if said is not None and not evidence.was_examined(row.request_id):
            entered.append(row.decided_at_ms - said.timestamp_ms)
            if entered[-1] < -SKEW_MS:
                found.say_wrong(f"decided {-entered[-1]} ms before the log took it in", Subject(row.request_id))
    for entry in evidence.ledger:
        at_ms = decided.get(entry.request_id) if entry.request_id is not None else None
        if entry.kind == "reserve" and at_ms is not None and entry.at_ms > at_ms + SKEW_MS:
            found.say_wrong(f"decided at {at_ms}, in the ledger at {entry.at_ms}", Subject(entry.request_id))
    if entered:
        found.facts["from log to decision, least ms"] = min(entered)
        found.facts["from log to decision, most ms"] = max(entered)


def attempts_of(evidence: Evidence) -> dict[Buyer, list[Attempt]]:
    found: dict[Buyer, list[Attempt]] = defaultdict(list)
    for attempt in evidence.attempts:
        found[attempt.user_id, attempt.sale_id].append(attempt)
    return found


def is_in_time(
    evidence: Evidence, found: Found, sent: dict[Buyer, list[Attempt]], said: Requested, since_ms: int
) -> bool:
    """Did the log take it in soon after `since_ms`, or when it was sent again? An attempt that was under way explains
    it. Where its buyer's attempts are not known, that is not known either."""
    if said.timestamp_ms <= since_ms + TRANSIT_MS:
        return True
    asked = sent.get((said.user_id, said.sale_id))
    if not asked and (said.sale_id not in evidence.crowd_sales or "C" in evidence.off):
        found.unknown.append("a request entered the log late, and its buyer's attempts are not known")
        return True
    return any(_covers(attempt, said.timestamp_ms, TRANSIT_MS) for attempt in asked or ())


def _covers(attempt: Attempt, at_ms: int, slack_ms: int) -> bool:
    return attempt.at_ms - SKEW_MS <= at_ms <= attempt.at_ms + attempt.took_ms + slack_ms
