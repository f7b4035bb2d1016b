"""Messages: each reaches its own buyer, says what its event says, and comes in the order in which things happened."""

from __future__ import annotations

from collections import defaultdict

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
from seckill.consistency.rows import TOLD
from seckill.consistency.verdicts import Found, Subject

SHOWN_OF_ID = 8
"""So many characters of its id name an order in a message."""


def messages_are_right(evidence: Evidence, found: Found) -> None:
    """I30. Each message goes to the buyer whose order it is about, with the text that was written for its event, the
    same in the delivery and in the sink; and in each sink a user's messages come in the order of his events, but for
    those of dead letters and those that an operator has sent again."""
    events = {event.event_id: event for event in evidence.orders_said}
    places = _places(evidence)
    texts = {(row.event_id, row.channel): row for row in evidence.deliveries}
    examined = {letter.group for letter in evidence.dead}
    was_repeated = any(verb.verb == "messages again" for verb in evidence.verbs)
    kinds: dict[str, set[str]] = defaultdict(set)
    for row in evidence.deliveries:
        event = events.get(row.event_id)
        if event is None or event.event not in TOLD:
            found.say_missing(f"a delivery by {row.channel} of no event", Subject(user_id=row.user_id))
            continue
        found.looked_at += 1
        if row.text:
            short = event.order_id[:SHOWN_OF_ID]
            if short not in row.text:
                found.say_wrong(
                    f"the {row.channel} of {event.event} does not name its order", Subject(None, event.order_id)
                )
            kinds[event.event].add(row.text.replace(short, "…"))
    for kind, said in kinds.items():
        if len(said) > 1:
            found.say_wrong(f"{len(said)} different texts for {kind}")
    if len({text for said in kinds.values() for text in said}) < sum(map(len, kinds.values())):
        found.say_wrong("two kinds of events have the same text")
    last: dict[tuple[str, str, int], tuple[int, int]] = {}
    for line in evidence.sink:
        event = events.get(line.event_id)
        if line.what not in ("effect", "again") or event is None:
            continue
        found.looked_at += 1
        subject = Subject(event.request_id, event.order_id)
        what = f"the {line.channel} of {event.event}"
        if line.user_id != event.user_id:
            found.say_wrong(f"{what} went to {line.user_id}, the order is {event.user_id}'s", subject)
        delivery = texts.get((line.event_id, line.channel))
        if delivery is not None and line.text != delivery.text:
            found.say_wrong(f"{what} says {line.text!r}, not {delivery.text!r}", subject)
        is_excepted = f"notify.{line.channel}" in examined or (
            was_repeated and delivery is not None and delivery.attempts > 1
        )
        if line.what == "effect" and not is_excepted:
            partition, offset = places[line.event_id]
            queue = (event.user_id, line.channel, partition)
            before = last.get(queue, (-1, -1))
            if offset < before[0] or line.at_ms < before[1]:
                found.say_wrong(f"{what} did not come in the order of the same user's events", subject)
            last[queue] = max(offset, before[0]), max(line.at_ms, before[1])


def _places(evidence: Evidence) -> dict[Id, tuple[int, int]]:
    """Where each order event first stands in its topic."""
    found: dict[Id, tuple[int, int]] = {}
    for event in evidence.orders_said:
        at = (event.place.partition, event.place.offset)
        found[event.event_id] = min(at, found.get(event.event_id, at))
    return found
