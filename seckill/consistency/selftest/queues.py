"""Corruptions of what was said and read: log, decisions, offsets, order of arrival, time."""

from __future__ import annotations

from dataclasses import replace

from seckill.consistency.evidence import Evidence
from seckill.consistency.rows import RESERVED, Requested, Unreadable
from seckill.consistency.selftest.spoiling import (
    NoMaterial,
    corruption,
    first,
    instead,
    last,
    stranger,
    without,
)
from seckill.consistency.verdicts import Verdict


def _acked(evidence: Evidence) -> Requested:
    """A request that was acknowledged, and stands in the log once."""
    acked = {attempt.request_id for attempt in evidence.attempts if attempt.status == 202}
    return first(evidence.requested, lambda said: said.request_id in acked)


@corruption("I6", "a buyer is refused at a stock version where there was enough")
def false_sold_out(evidence: Evidence) -> Evidence:
    row = first(evidence.decided, lambda row: row.decision == "SOLD_OUT")
    return replace(evidence, decided=instead(evidence.decided, row, row._replace(stock_version=1)))


@corruption("I7", "an acknowledged request is gone from the log")
def acked_gone(evidence: Evidence) -> Evidence:
    return replace(evidence, requested=without(evidence.requested, _acked(evidence)))


@corruption("I7", "another request stands where one was acknowledged")
def acked_replaced(evidence: Evidence) -> Evidence:
    said = _acked(evidence)
    return replace(evidence, requested=instead(evidence.requested, said, said._replace(request_id=stranger())))


@corruption("I8", "a request that nobody sent")
def phantom(evidence: Evidence) -> Evidence:
    said = last(evidence.requested, lambda said: said.sale_id in evidence.crowd_sales)
    extra = said._replace(
        request_id=stranger(), user_id="nobody", place=said.place._replace(offset=said.place.offset + 1_000_000)
    )
    return replace(evidence, requested=[*evidence.requested, extra])


@corruption("I9", "a request is never decided")
def undecided(evidence: Evidence) -> Evidence:
    row = first(evidence.decided, lambda row: row.decision != RESERVED)
    return replace(evidence, decided=without(evidence.decided, row))


@corruption("I9", "a request is decided twice")
def decided_twice(evidence: Evidence) -> Evidence:
    return replace(evidence, decided=[*evidence.decided, first(evidence.decided)])


@corruption("I9", "two different decisions of one request are published")
def published_twice(evidence: Evidence) -> Evidence:
    said = first(evidence.decisions_said, lambda said: said.decision == "SOLD_OUT")
    other = said._replace(event_id=stranger(), decision=RESERVED)
    return replace(evidence, decisions_said=[*evidence.decisions_said, other])


@corruption("I9", "a decision is never published")
def unpublished(evidence: Evidence) -> Evidence:
    said = first(evidence.decisions_said, lambda said: said.decision == "SOLD_OUT")
    return replace(evidence, decisions_said=[row for row in evidence.decisions_said if row.event_id != said.event_id])


@corruption("I9", "one request is exchanged for another: all counts agree")
def exchanged(evidence: Evidence) -> Evidence:
    row = first(evidence.decisions_read)
    return replace(evidence, decisions_read=instead(evidence.decisions_read, row, row._replace(request_id=stranger())))


@corruption("I11", "the inbox skips an offset")
def offset_skipped(evidence: Evidence) -> Evidence:
    row = first(evidence.decided, lambda row: row.decision != RESERVED)
    return replace(evidence, decided=without(evidence.decided, row))


@corruption("I11", "a group commits to the broker what it has not done")
def committed_ahead(evidence: Evidence) -> Evidence:
    row = first(evidence.committed)
    return replace(
        evidence, committed=instead(evidence.committed, row, row._replace(next_offset=row.next_offset + 1_000_000))
    )


@corruption("I11", "settlement went past an order event")
def event_skipped(evidence: Evidence) -> Evidence:
    return replace(evidence, settled=without(evidence.settled, first(evidence.settled)))


@corruption("I13", "a request leads to two orders")
def ordered_twice(evidence: Evidence) -> Evidence:
    return replace(evidence, orders=[*evidence.orders, first(evidence.orders)._replace(id=stranger())])


@corruption("I13", "an order is said to be paid in two different events")
def paid_twice(evidence: Evidence) -> Evidence:
    said = first(evidence.orders_said, lambda said: said.event == "OrderPaid")
    return replace(evidence, orders_said=[*evidence.orders_said, said._replace(event_id=stranger())])


@corruption("I16", "a user's later request comes before his earlier one")
def overtaken(evidence: Evidence) -> Evidence:
    """Two requests of a user; the clients' times are moved so that the one further back was sent first of all."""
    requests: dict[str, list[Requested]] = {}
    for said in evidence.first_requested.values():
        requests.setdefault(said.user_id, []).append(said)
    acked = {attempt.request_id for attempt in evidence.attempts if attempt.status == 202}
    pair = first(requests.values(), lambda said: sum(each.request_id in acked for each in said) == 2 and len(said) == 2)
    ahead, behind = sorted(pair, key=lambda said: said.place.offset)
    attempts = [
        attempt._replace(at_ms=attempt.at_ms - 10_000_000)
        if attempt.request_id == behind.request_id
        else attempt._replace(at_ms=attempt.at_ms + 10_000_000)
        if attempt.request_id == ahead.request_id
        else attempt
        for attempt in evidence.attempts
    ]
    return replace(evidence, attempts=attempts)


@corruption("I17", "somebody is served before those who came first in the same partition")
def jumped_the_queue(evidence: Evidence) -> Evidence:
    served = {
        (row.place.topic, row.place.partition, row.sale_id, row.sku): row
        for row in evidence.decided
        if row.decision == RESERVED
    }
    for refused in evidence.decided:
        row = served.get((refused.place.topic, refused.place.partition, refused.sale_id, refused.sku))
        if (
            refused.decision != "SOLD_OUT"
            or row is None
            or row.stock_version > refused.stock_version
            or row.quantity < refused.quantity
        ):
            continue
        one, other = evidence.first_requested[row.request_id], evidence.first_requested[refused.request_id]
        swapped = {
            one.request_id: one._replace(place=other.place, timestamp_ms=other.timestamp_ms),
            other.request_id: other._replace(place=one.place, timestamp_ms=one.timestamp_ms),
        }
        others = [said for said in evidence.requested if said.request_id not in swapped]
        rows = [
            each._replace(place=swapped[each.request_id].place) if each.request_id in swapped else each
            for each in evidence.decided
        ]
        return replace(evidence, requested=[*others, *swapped.values()], decided=rows)
    raise NoMaterial


@corruption("I18", "somebody is let in before the sale opens")
def early(evidence: Evidence) -> Evidence:
    sale = first(evidence.sales)
    said = first(evidence.requested, lambda said: said.sale_id == sale.id)
    return replace(
        evidence, requested=instead(evidence.requested, said, said._replace(admitted_at_ms=sale.opens_at_ms - 1))
    )


@corruption("I18", "somebody is let in after the sale has closed")
def after_closing(evidence: Evidence) -> Evidence:
    sale = first(evidence.sales)
    said = first(evidence.requested, lambda said: said.sale_id == sale.id)
    return replace(
        evidence, requested=instead(evidence.requested, said, said._replace(admitted_at_ms=sale.closes_at_ms))
    )


@corruption("I19", "a request is granted past its deadline")
def granted_late(evidence: Evidence) -> Evidence:
    row = first(evidence.decided, lambda row: row.decision == RESERVED)
    return replace(evidence, decided=instead(evidence.decided, row, row._replace(decided_at_ms=row.deadline_ms + 1)))


@corruption("I23", "events wait in an outbox although everything is quiet")
def stuck_outbox(evidence: Evidence) -> Evidence:
    return replace(evidence, outbox={"orders": 1})


@corruption("I23", "a record that nobody could read was buried by nobody")
def poison_dropped(evidence: Evidence) -> Evidence:
    said = first(evidence.requested)
    bad = Unreadable("purchase.requests", said.place, "no JSON")
    return replace(evidence, unreadable=[*evidence.unreadable, bad])


@corruption("I9", "the head of the log was deleted", Verdict.UNKNOWN)
def head_deleted(evidence: Evidence) -> Evidence:
    """Nothing may be concluded from what is missing then, so it must be UNKNOWN and neither PASS nor FAIL."""
    source = replace(evidence.sources["K"], faults=("purchase.requests-0: the log begins at 7, its head is gone",))
    return replace(
        evidence, sources={**evidence.sources, "K": source}, requested=without(evidence.requested, _acked(evidence))
    )
