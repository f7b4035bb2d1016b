"""The whole: nothing is hidden in a queue, and the evidence could have shown a fault."""

from __future__ import annotations

from collections import Counter

from seckill.consistency.evidence import Evidence
from seckill.consistency.verdicts import Found, Subject
from seckill.topics import TOPICS

CRASHES = ("kill", "chaos", "restart", "broker", "postgres", "redis", "rebalance")
"""A fault whose name has one of these should have led to something being delivered again."""


def nothing_hidden(evidence: Evidence, found: Found) -> None:
    """I23. Outboxes and retry queues are empty, and what could not be read lies, named, among the dead letters of
    every group that went past it; a replayed or discarded one has been decided."""
    for writer, count in sorted(evidence.outbox.items()):
        found.say_missing(f"{count} events of {writer} are not published")
    if evidence.gate_owed:
        found.say_missing(f"the gate is owed {len(evidence.gate_owed)} releases", Subject(evidence.gate_owed[0]))
    due = [row for row in evidence.deliveries if row.state == "due"]
    if due:
        found.say_missing(f"{len(due)} deliveries are due", Subject(user_id=due[0].user_id))
    dead = {(letter.group, letter.topic, letter.place) for letter in evidence.dead}
    reached = {(row.group, row.topic, row.partition): row.next_offset for row in evidence.offsets}
    for bad in evidence.unreadable:
        for group in TOPICS[bad.topic].readers:
            key = (group, bad.topic, bad.place)
            went_past = bad.place.offset < reached.get((group, bad.topic, bad.place.partition), 0)
            if went_past and key not in dead:
                where = f"{bad.topic}-{bad.place.partition}@{bad.place.offset}"
                found.say_wrong(f"{group} went past {where} ({bad.reason}) and buried nothing")
    ends = {(log.topic, log.partition): log.cut for log in evidence.logs}
    for letter in evidence.dead:
        if letter.place.offset >= ends.get((letter.topic, letter.place.partition), 0) and not evidence.under_way:
            found.say_wrong(f"a dead letter of {letter.topic} at {letter.place}, where nothing was ever written")
    for place, letter in evidence.dead_requests.items():
        said = evidence.requested_at.get(place)
        if (
            letter.state in ("replayed", "discarded")
            and said is not None
            and said.request_id not in evidence.decision_of
        ):
            found.say_missing(
                f"a dead letter is {letter.state}, and its request is not decided", Subject(said.request_id)
            )
    for (group, state), count in sorted(Counter((row.group, row.state) for row in evidence.dead).items()):
        found.facts[f"dead letters of {group}, {state}"] = count
    found.facts.setdefault("dead letters", len(evidence.dead))
    found.looked_at += len(evidence.offsets)


def could_have_failed(evidence: Evidence, found: Found) -> None:
    """I24. All declared sources were read whole, planned faults really happened, somebody competed for the units, and
    where crashes were planned something was delivered again, or read again by a successor."""
    for letter, source in evidence.sources.items():
        if letter in evidence.off or (letter == "F" and not evidence.faults_planned):
            continue
        found.looked_at += sum(source.counts.values())
        found.unknown += [f"source {letter}: {fault}" for fault in source.faults]
        if not source.faults and not source.is_whole:
            found.unknown.append(f"source {letter} is empty")
    found.unknown += [f"not drained: {reason}" for reason in evidence.under_way]
    done = Counter(str(line.get("fault")) for line in evidence.injected)
    for fault in evidence.faults_planned:
        if not done[fault]:
            found.unknown.append(f"the fault {fault} was planned and did not happen")
    contended = sum(row.decision in ("SOLD_OUT", "DUPLICATE") for row in evidence.decided)
    found.facts["decisions somebody could have won"] = contended
    if not contended:
        found.unknown.append("nobody competed: nothing could have gone wrong")
    again = len(evidence.redelivered)
    again += len(evidence.decisions_said) - len({said.event_id for said in evidence.decisions_said})
    again += len(evidence.orders_said) - len({said.event_id for said in evidence.orders_said})
    again += sum(line.what == "again" for line in evidence.sink)
    found.facts["delivered again"] = again
    found.facts["partitions taken over"] = evidence.claimed_again
    if (
        not again
        and not evidence.claimed_again
        and any(word in fault for fault in evidence.faults_planned for word in CRASHES)
    ):
        found.unknown.append("crashes were planned, and nothing was delivered or read again")
