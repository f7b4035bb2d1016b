"""Check what buyers were told: the states they saw were true, and each message arrived once."""

from __future__ import annotations

from collections import Counter, defaultdict

from seckill.report.evidence import Evidence
from seckill.report.identity import Id
from seckill.report.rows import CHANNELS, NOTIFIED_EVENTS, REFUSALS, RESERVED, Poll
from seckill.report.verdicts import Findings, Subject

QUEUED, AWAITING = "QUEUED", "AWAITING_PAYMENT"
OF_ORDER = {"PENDING_PAYMENT": AWAITING}
"""Order states that are shown to buyers under another name."""

LATER: dict[str, frozenset[str]] = {
    QUEUED: frozenset({RESERVED, AWAITING, "PAID", "EXPIRED", "CANCELLED", "REFUNDED", "NOT_PLACED"}) | REFUSALS,
    RESERVED: frozenset({AWAITING, "PAID", "EXPIRED", "CANCELLED", "REFUNDED", "NOT_PLACED"}),
    AWAITING: frozenset({"PAID", "EXPIRED", "CANCELLED", "REFUNDED"}),
    "PAID": frozenset({"REFUNDED"}),
    **{ended: frozenset() for ended in ("EXPIRED", "CANCELLED", "REFUNDED", "NOT_PLACED", *REFUSALS)},
}
"""The states that a buyer may see after each state."""


def true_state(evidence: Evidence, request: Id) -> str:
    """The state of a request according to the tables of inventory and orders."""
    row = evidence.decision_by_request.get(request)
    if row is None:
        return QUEUED
    if row.decision != RESERVED:
        return row.decision
    order = evidence.order_by_request.get(request)
    return RESERVED if order is None else OF_ORDER.get(order.state, order.state)


def buyers_saw_the_truth(evidence: Evidence, findings: Findings) -> None:
    """I10. Every state that a buyer saw was true when it was shown: it is the current state of the request or an
    earlier one. States never go backwards, nobody sees the purchase of another buyer, an accepted request is never
    unknown to its owner, and it is shown with its own order. The state that the gateway would show now is the current
    one."""
    owners = {request: record.user_id for request, record in evidence.first_request_by_id.items()}
    released = {hold.request_id for hold in evidence.holds if not hold.is_active}
    polls: dict[Id, list[Poll]] = defaultdict(list)
    for poll in evidence.polls:
        if poll.status == 200:
            polls[poll.request_id].append(poll)
        elif 400 <= poll.status < 500 and poll.status != 429:
            findings.checked += 1
            if poll.user_id == owners.get(poll.request_id, poll.user_id):
                findings.add_violation(
                    f"the request was accepted, but its owner got {poll.status} on a poll", Subject(poll.request_id)
                )
    for request, seen in polls.items():
        findings.checked += len(seen)
        now = true_state(evidence, request)
        subject = Subject(request)
        if request not in owners:
            findings.add_missing("a buyer saw a purchase that is not in the log", subject)
        before = ""
        for poll in sorted(seen, key=lambda poll: poll[:2]):
            if poll.state not in LATER:
                findings.add_violation(f"saw the unknown state {poll.state!r}", subject)
            elif poll.state != now and now not in LATER[poll.state]:
                findings.add_violation(f"saw {poll.state}, but the state is {now}", subject)
            elif before and poll.state != before and poll.state not in LATER[before]:
                findings.add_violation(f"saw {before} and then {poll.state}", subject)
            if poll.user_id != owners.get(request, poll.user_id):
                findings.add_violation(f"{poll.user_id} saw a purchase of {owners[request]}", subject)
            if poll.may_buy_again and request not in released:
                findings.add_violation(
                    "was told that buying again is possible, but the units have not been returned", subject
                )
            order = evidence.order_by_request.get(request)
            if poll.order_id is not None and (order is None or order.id != poll.order_id):
                findings.add_violation(f"was shown order {poll.order_id}, which belongs to another request", subject)
            before = poll.state if poll.state in LATER else before
    for outcome in evidence.outcomes:
        now = true_state(evidence, outcome.request_id)
        if outcome.state != now:
            findings.add_missing(f"is shown {outcome.state}, but the state is {now}", Subject(outcome.request_id))


def messages_once(evidence: Evidence, findings: Findings) -> None:
    """I21. Each order event is delivered once on each channel: there is one delivery, it is done, and the sink received
    the message once. Buyers without an order get no message."""
    wanted = {event.event_id: event for event in evidence.order_events if event.event in NOTIFIED_EVENTS}
    effects = Counter((line.event_id, line.channel) for line in evidence.sink_lines if line.what == "effect")
    deliveries = {(row.event_id, row.channel): row for row in evidence.deliveries}
    for event_id, event in wanted.items():
        for channel in CHANNELS:
            findings.checked += 1
            what = f"{channel} about {event.event}"
            subject = Subject(event.request_id, event.order_id)
            row = deliveries.get((event_id, channel))
            if row is None:
                findings.add_missing(f"{what}: no delivery", subject)
            elif row.state != "done":
                findings.add_missing(f"{what}: {row.state} after {row.attempts} attempts", subject)
            elif row.user_id != event.user_id:
                findings.add_violation(
                    f"{what}: sent to {row.user_id}, but the order belongs to {event.user_id}", subject
                )
            count = effects[event_id, channel]
            if count > 1:
                findings.add_violation(f"{what}: received {count} times", subject)
            elif not count and row is not None and row.state == "done":
                findings.add_violation(f"{what}: marked as done, but the sink did not receive it", subject)
    for event_id, channel in effects.keys() - {(event_id, channel) for event_id in wanted for channel in CHANNELS}:
        findings.add_missing(f"the {channel} sink received event {event_id}, which is not in the topic")
    buyers = {order.user_id for order in evidence.orders}
    for line in evidence.sink_lines:
        if line.what == "effect" and line.user_id not in buyers:
            findings.add_missing(
                f"a message by {line.channel} to a user without an order", Subject(user_id=line.user_id)
            )
    findings.facts["attempts beyond the first"] = sum(max(0, row.attempts - 1) for row in evidence.deliveries)
