"""Check messages: each one reaches the right buyer with the right text, in the order of the events."""

from __future__ import annotations

from collections import defaultdict

from seckill.report.evidence import Evidence
from seckill.report.identity import Id
from seckill.report.rows import NOTIFIED_EVENTS
from seckill.report.verdicts import Findings, Subject

SHOWN_OF_ID = 8
"""A message names its order by this many characters of the id."""


def messages_are_correct(evidence: Evidence, findings: Findings) -> None:
    """I30. Every message goes to the buyer of its order and has the text for its event, the same in the delivery and in
    the sink. In each sink the messages of a user arrive in the order of the user's events, except for dead letters and
    for messages that an operator has sent again."""
    events = {event.event_id: event for event in evidence.order_events}
    positions = _first_positions(evidence)
    texts = {(row.event_id, row.channel): row for row in evidence.deliveries}
    examined = {letter.group for letter in evidence.dead_letters}
    was_repeated = any(verb.verb == "messages again" for verb in evidence.operator_actions)
    kinds: dict[str, set[str]] = defaultdict(set)
    for row in evidence.deliveries:
        event = events.get(row.event_id)
        if event is None or event.event not in NOTIFIED_EVENTS:
            findings.add_missing(f"a delivery by {row.channel} without an event", Subject(user_id=row.user_id))
            continue
        findings.checked += 1
        if row.text:
            short = event.order_id[:SHOWN_OF_ID]
            if short not in row.text:
                findings.add_violation(
                    f"the {row.channel} about {event.event} does not name its order", Subject(None, event.order_id)
                )
            kinds[event.event].add(row.text.replace(short, "…"))
    for kind, texts_of_kind in kinds.items():
        if len(texts_of_kind) > 1:
            findings.add_violation(f"{len(texts_of_kind)} different texts for {kind}")
    if len({text for texts_of_kind in kinds.values() for text in texts_of_kind}) < sum(map(len, kinds.values())):
        findings.add_violation("two kinds of events have the same text")
    last: dict[tuple[str, str, int], tuple[int, int]] = {}
    for line in evidence.sink_lines:
        event = events.get(line.event_id)
        if line.what not in ("effect", "again") or event is None:
            continue
        findings.checked += 1
        subject = Subject(event.request_id, event.order_id)
        what = f"the {line.channel} about {event.event}"
        if line.user_id != event.user_id:
            findings.add_violation(f"{what} went to {line.user_id}, but the order belongs to {event.user_id}", subject)
        delivery = texts.get((line.event_id, line.channel))
        if delivery is not None and line.text != delivery.text:
            findings.add_violation(f"{what} says {line.text!r}, but the delivery says {delivery.text!r}", subject)
        is_excepted = f"notify.{line.channel}" in examined or (
            was_repeated and delivery is not None and delivery.attempts > 1
        )
        if line.what == "effect" and not is_excepted:
            partition, offset = positions[line.event_id]
            queue = (event.user_id, line.channel, partition)
            before = last.get(queue, (-1, -1))
            if offset < before[0] or line.at_ms < before[1]:
                findings.add_violation(f"{what} arrived out of order for its user", subject)
            last[queue] = max(offset, before[0]), max(line.at_ms, before[1])


def _first_positions(evidence: Evidence) -> dict[Id, tuple[int, int]]:
    """Partition and offset of the first record of each order event."""
    found: dict[Id, tuple[int, int]] = {}
    for event in evidence.order_events:
        at = (event.position.partition, event.position.offset)
        found[event.event_id] = min(at, found.get(event.event_id, at))
    return found
