"""Telling: buyers saw the truth, and got each message once."""

from __future__ import annotations

from collections import Counter, defaultdict

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
from seckill.consistency.rows import CHANNELS, REFUSALS, RESERVED, TOLD, Sight
from seckill.consistency.verdicts import Found, Subject

QUEUED, AWAITING = "QUEUED", "AWAITING_PAYMENT"
OF_ORDER = {"PENDING_PAYMENT": AWAITING}
"""What a buyer is shown for a state of his order; the others are shown as they are."""

LATER: dict[str, frozenset[str]] = {
    QUEUED: frozenset({RESERVED, AWAITING, "PAID", "EXPIRED", "CANCELLED", "REFUNDED", "NOT_PLACED"}) | REFUSALS,
    RESERVED: frozenset({AWAITING, "PAID", "EXPIRED", "CANCELLED", "REFUNDED", "NOT_PLACED"}),
    AWAITING: frozenset({"PAID", "EXPIRED", "CANCELLED", "REFUNDED"}),
    "PAID": frozenset({"REFUNDED"}),
    **{ended: frozenset() for ended in ("EXPIRED", "CANCELLED", "REFUNDED", "NOT_PLACED", *REFUSALS)},
}
"""What may still come after a buyer has seen a state."""


def truth(evidence: Evidence, request: Id) -> str:
    """What the tables of those who decide say of a request."""
    row = evidence.decision_of.get(request)
    if row is None:
        return QUEUED
    if row.decision != RESERVED:
        return row.decision
    order = evidence.order_of.get(request)
    return RESERVED if order is None else OF_ORDER.get(order.state, order.state)


def told_the_truth(evidence: Evidence, found: Found) -> None:
    """I10. Everything a client saw of a request is what is true now or what came before it; what he saw last never goes
    back; nobody saw another's; an accepted request is never unknown to its owner, and is seen with its own order; and
    what he would be shown now is the truth."""
    owners = {request: said.user_id for request, said in evidence.first_requested.items()}
    released = {hold.request_id for hold in evidence.holds if not hold.is_active}
    sights: dict[Id, list[Sight]] = defaultdict(list)
    for sight in evidence.sights:
        if sight.status == 200:
            sights[sight.request_id].append(sight)
        elif 400 <= sight.status < 500 and sight.status != 429:
            found.looked_at += 1
            if sight.user_id == owners.get(sight.request_id, sight.user_id):
                found.say_wrong(f"accepted, and its owner was told {sight.status}", Subject(sight.request_id))
    for request, seen in sights.items():
        found.looked_at += len(seen)
        now = truth(evidence, request)
        subject = Subject(request)
        if request not in owners:
            found.say_missing("a purchase was seen that is not in the log", subject)
        before = ""
        for sight in sorted(seen, key=lambda sight: sight[:2]):
            if sight.state not in LATER:
                found.say_wrong(f"saw {sight.state!r}, which is no state", subject)
            elif sight.state != now and now not in LATER[sight.state]:
                found.say_wrong(f"saw {sight.state}, and the truth is {now}", subject)
            elif before and sight.state != before and sight.state not in LATER[before]:
                found.say_wrong(f"saw {before}, and {sight.state} after it", subject)
            if sight.user_id != owners.get(request, sight.user_id):
                found.say_wrong(f"{sight.user_id} saw what is {owners[request]}'s", subject)
            if sight.may_buy_again and request not in released:
                found.say_wrong("was told to buy again, and the units are not back", subject)
            order = evidence.order_of.get(request)
            if sight.order_id is not None and (order is None or order.id != sight.order_id):
                found.say_wrong(f"was shown order {sight.order_id}, which is not its own", subject)
            before = sight.state if sight.state in LATER else before
    for outcome in evidence.outcomes:
        now = truth(evidence, outcome.request_id)
        if outcome.state != now:
            found.say_missing(f"is shown {outcome.state}, and the truth is {now}", Subject(outcome.request_id))


def told_once(evidence: Evidence, found: Found) -> None:
    """I21. For each order event and channel one delivery, done, and one effect in the sink; none for anything else,
    and none for those who got nothing."""
    wanted = {event.event_id: event for event in evidence.orders_said if event.event in TOLD}
    effects = Counter((line.event_id, line.channel) for line in evidence.sink if line.what == "effect")
    deliveries = {(row.event_id, row.channel): row for row in evidence.deliveries}
    for event_id, event in wanted.items():
        for channel in CHANNELS:
            found.looked_at += 1
            what = f"{channel} of {event.event}"
            subject = Subject(event.request_id, event.order_id)
            row = deliveries.get((event_id, channel))
            if row is None:
                found.say_missing(f"{what}: no delivery", subject)
            elif row.state != "done":
                found.say_missing(f"{what}: {row.state} after {row.attempts} attempts", subject)
            elif row.user_id != event.user_id:
                found.say_wrong(f"{what}: for {row.user_id}, of an order of {event.user_id}", subject)
            count = effects[event_id, channel]
            if count > 1:
                found.say_wrong(f"{what}: {count} effects", subject)
            elif not count and row is not None and row.state == "done":
                found.say_wrong(f"{what}: done, and the sink knows nothing of it", subject)
    for event_id, channel in effects.keys() - {(event_id, channel) for event_id in wanted for channel in CHANNELS}:
        found.say_missing(f"the sink of {channel} was told of event {event_id}, which is not in the topic")
    buyers = {order.user_id for order in evidence.orders}
    for line in evidence.sink:
        if line.what == "effect" and line.user_id not in buyers:
            found.say_missing(f"a message by {line.channel}, and no order", Subject(user_id=line.user_id))
    found.facts["attempts beyond the first"] = sum(max(0, row.attempts - 1) for row in evidence.deliveries)
