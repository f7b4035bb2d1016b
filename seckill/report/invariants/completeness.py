"""Check completeness: no work is stuck, and the evidence could have shown a failure."""

from __future__ import annotations

from collections import Counter

from seckill.messaging.topics import TOPICS
from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source
from seckill.report.verdicts import Findings, Subject

CRASHES = ("kill", "chaos", "restart", "broker", "postgres", "redis", "rebalance")
"""A fault with one of these words in its name should cause a redelivery."""


def no_work_stuck(evidence: Evidence, findings: Findings) -> None:
    """I23. Outboxes and retry queues are empty. A record that a group could not read is one of its dead letters, and
    the request of a replayed or discarded dead letter has been decided."""
    for writer, count in sorted(evidence.unpublished.items()):
        findings.add_missing(f"{count} events of {writer} are not published")
    if evidence.gate_releases_due:
        findings.add_missing(
            f"{len(evidence.gate_releases_due)} releases have not reached the gate",
            Subject(evidence.gate_releases_due[0]),
        )
    due = [row for row in evidence.deliveries if row.state == "due"]
    if due:
        findings.add_missing(f"{len(due)} deliveries are due", Subject(user_id=due[0].user_id))
    dead = {(letter.group, letter.topic, letter.position) for letter in evidence.dead_letters}
    reached = {(row.group, row.topic, row.partition): row.next_offset for row in evidence.group_offsets}
    for bad in evidence.unreadable:
        for group in TOPICS[bad.topic].readers:
            key = (group, bad.topic, bad.position)
            went_past = bad.position.offset < reached.get((group, bad.topic, bad.position.partition), 0)
            if went_past and key not in dead:
                where = f"{bad.topic}-{bad.position.partition}@{bad.position.offset}"
                findings.add_violation(f"{group} skipped {where} ({bad.reason}) without a dead letter")
    ends = {(log.topic, log.partition): log.cut for log in evidence.partition_logs}
    for letter in evidence.dead_letters:
        if letter.position.offset >= ends.get((letter.topic, letter.position.partition), 0) and not evidence.unfinished:
            findings.add_violation(f"a dead letter of {letter.topic} at {letter.position}, beyond the end of the log")
    for place, letter in evidence.dead_request_by_position.items():
        record = evidence.request_by_position.get(place)
        if (
            letter.state in ("replayed", "discarded")
            and record is not None
            and record.request_id not in evidence.decision_by_request
        ):
            findings.add_missing(
                f"a dead letter is {letter.state}, but its request is not decided", Subject(record.request_id)
            )
    for (group, state), count in sorted(Counter((row.group, row.state) for row in evidence.dead_letters).items()):
        findings.facts[f"dead letters of {group}, {state}"] = count
    findings.facts.setdefault("dead letters", len(evidence.dead_letters))
    findings.checked += len(evidence.group_offsets)


def could_have_failed(evidence: Evidence, findings: Findings) -> None:
    """I24. The evidence could have shown a failure: every required source was read completely, every planned fault
    happened, and buyers competed for units. If crashes were planned, something was delivered again or a consumer took
    over a partition."""
    for source, status in evidence.sources.items():
        if source in evidence.declared_off or (source is Source.FAULTS and not evidence.planned_faults):
            continue
        findings.checked += sum(status.counts.values())
        findings.unknown += [f"source {source}: {fault}" for fault in status.faults]
        if not status.faults and not status.is_complete:
            findings.unknown.append(f"source {source} is empty")
    findings.unknown += [f"not drained: {reason}" for reason in evidence.unfinished]
    done = Counter(str(line.get("fault")) for line in evidence.injected_faults)
    for fault in evidence.planned_faults:
        if not done[fault]:
            findings.unknown.append(f"the planned fault {fault} did not happen")
    contended = sum(row.decision in ("SOLD_OUT", "DUPLICATE") for row in evidence.decisions)
    findings.facts["decisions under contention"] = contended
    if not contended:
        findings.unknown.append("no buyers competed for units, so the run could not have failed")
    again = len(evidence.redeliveries)
    again += len(evidence.decision_events) - len({record.event_id for record in evidence.decision_events})
    again += len(evidence.order_events) - len({record.event_id for record in evidence.order_events})
    again += sum(line.what == "again" for line in evidence.sink_lines)
    findings.facts["delivered again"] = again
    findings.facts["partitions taken over"] = evidence.partition_takeovers
    if (
        not again
        and not evidence.partition_takeovers
        and any(word in fault for fault in evidence.planned_faults for word in CRASHES)
    ):
        findings.unknown.append("crashes were planned, but nothing was delivered again and no partition was taken over")
