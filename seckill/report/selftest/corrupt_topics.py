"""Corruptions of topics and offsets: requests, decisions, order of arrival, time."""

from __future__ import annotations

from dataclasses import replace

from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source
from seckill.report.rows import RESERVED, RequestRecord, Unreadable
from seckill.report.selftest.corruptions import (
    NothingToCorrupt,
    corruption,
    first,
    last,
    unknown_id,
    with_replaced,
    without_one,
)
from seckill.report.verdicts import Verdict


def _acked(evidence: Evidence) -> RequestRecord:
    """A request that was acknowledged."""
    acked = {attempt.request_id for attempt in evidence.attempts if attempt.status == 202}
    return first(evidence.requests, lambda record: record.request_id in acked)


@corruption("I6", "a request is refused as sold out at a stock version with units available")
def false_sold_out(evidence: Evidence) -> Evidence:
    row = first(evidence.decisions, lambda row: row.decision == "SOLD_OUT")
    return replace(evidence, decisions=with_replaced(evidence.decisions, row, row._replace(stock_version=1)))


@corruption("I7", "an acknowledged request is missing from the log")
def acked_gone(evidence: Evidence) -> Evidence:
    return replace(evidence, requests=without_one(evidence.requests, _acked(evidence)))


@corruption("I7", "the log has another request at an acknowledged position")
def acked_replaced(evidence: Evidence) -> Evidence:
    record = _acked(evidence)
    return replace(
        evidence, requests=with_replaced(evidence.requests, record, record._replace(request_id=unknown_id()))
    )


@corruption("I8", "the log has a request that no buyer sent")
def phantom(evidence: Evidence) -> Evidence:
    record = last(evidence.requests, lambda record: record.sale_id in evidence.crowd_sales)
    extra = record._replace(
        request_id=unknown_id(),
        user_id="nobody",
        position=record.position._replace(offset=record.position.offset + 1_000_000),
    )
    return replace(evidence, requests=[*evidence.requests, extra])


@corruption("I9", "a request is never decided")
def undecided(evidence: Evidence) -> Evidence:
    row = first(evidence.decisions, lambda row: row.decision != RESERVED)
    return replace(evidence, decisions=without_one(evidence.decisions, row))


@corruption("I9", "a request is decided twice")
def decided_twice(evidence: Evidence) -> Evidence:
    return replace(evidence, decisions=[*evidence.decisions, first(evidence.decisions)])


@corruption("I9", "two different decisions of a request are published")
def published_twice(evidence: Evidence) -> Evidence:
    record = first(evidence.decision_events, lambda record: record.decision == "SOLD_OUT")
    other = record._replace(event_id=unknown_id(), decision=RESERVED)
    return replace(evidence, decision_events=[*evidence.decision_events, other])


@corruption("I9", "a decision is never published")
def unpublished(evidence: Evidence) -> Evidence:
    record = first(evidence.decision_events, lambda record: record.decision == "SOLD_OUT")
    return replace(
        evidence, decision_events=[row for row in evidence.decision_events if row.event_id != record.event_id]
    )


@corruption("I9", "orders consumed another request instead, so all counts agree")
def exchanged(evidence: Evidence) -> Evidence:
    row = first(evidence.consumed_decisions)
    return replace(
        evidence,
        consumed_decisions=with_replaced(evidence.consumed_decisions, row, row._replace(request_id=unknown_id())),
    )


@corruption("I11", "inventory skips an offset")
def offset_skipped(evidence: Evidence) -> Evidence:
    row = first(evidence.decisions, lambda row: row.decision != RESERVED)
    return replace(evidence, decisions=without_one(evidence.decisions, row))


@corruption("I11", "a group commits an offset to the broker that it has not processed")
def committed_ahead(evidence: Evidence) -> Evidence:
    row = first(evidence.committed_offsets)
    return replace(
        evidence,
        committed_offsets=with_replaced(
            evidence.committed_offsets, row, row._replace(next_offset=row.next_offset + 1_000_000)
        ),
    )


@corruption("I11", "settlement skips an order event")
def event_skipped(evidence: Evidence) -> Evidence:
    return replace(evidence, settlements=without_one(evidence.settlements, first(evidence.settlements)))


@corruption("I13", "a request leads to two orders")
def ordered_twice(evidence: Evidence) -> Evidence:
    return replace(evidence, orders=[*evidence.orders, first(evidence.orders)._replace(id=unknown_id())])


@corruption("I13", "two different events publish an order as paid")
def paid_twice(evidence: Evidence) -> Evidence:
    record = first(evidence.order_events, lambda record: record.event == "OrderPaid")
    return replace(evidence, order_events=[*evidence.order_events, record._replace(event_id=unknown_id())])


@corruption("I16", "a user's later request overtakes an earlier one")
def overtaken(evidence: Evidence) -> Evidence:
    """The crowd's times are moved so that the second of two requests of a user was sent first."""
    requests: dict[str, list[RequestRecord]] = {}
    for record in evidence.first_request_by_id.values():
        requests.setdefault(record.user_id, []).append(record)
    acked = {attempt.request_id for attempt in evidence.attempts if attempt.status == 202}
    pair = first(
        requests.values(), lambda record: sum(each.request_id in acked for each in record) == 2 and len(record) == 2
    )
    ahead, behind = sorted(pair, key=lambda record: record.position.offset)
    attempts = [
        attempt._replace(at_ms=attempt.at_ms - 10_000_000)
        if attempt.request_id == behind.request_id
        else attempt._replace(at_ms=attempt.at_ms + 10_000_000)
        if attempt.request_id == ahead.request_id
        else attempt
        for attempt in evidence.attempts
    ]
    return replace(evidence, attempts=attempts)


@corruption("I17", "a request is served before an earlier one in the same partition")
def jumped_the_queue(evidence: Evidence) -> Evidence:
    served = {
        (row.position.topic, row.position.partition, row.sale_id, row.sku): row
        for row in evidence.decisions
        if row.decision == RESERVED
    }
    for refused in evidence.decisions:
        row = served.get((refused.position.topic, refused.position.partition, refused.sale_id, refused.sku))
        if (
            refused.decision != "SOLD_OUT"
            or row is None
            or row.stock_version > refused.stock_version
            or row.quantity < refused.quantity
        ):
            continue
        one, other = evidence.first_request_by_id[row.request_id], evidence.first_request_by_id[refused.request_id]
        swapped = {
            one.request_id: one._replace(position=other.position, timestamp_ms=other.timestamp_ms),
            other.request_id: other._replace(position=one.position, timestamp_ms=one.timestamp_ms),
        }
        others = [record for record in evidence.requests if record.request_id not in swapped]
        rows = [
            each._replace(position=swapped[each.request_id].position) if each.request_id in swapped else each
            for each in evidence.decisions
        ]
        return replace(evidence, requests=[*others, *swapped.values()], decisions=rows)
    raise NothingToCorrupt


@corruption("I18", "a request is admitted before the sale opens")
def early(evidence: Evidence) -> Evidence:
    sale = first(evidence.sales)
    record = first(evidence.requests, lambda record: record.sale_id == sale.id)
    return replace(
        evidence,
        requests=with_replaced(evidence.requests, record, record._replace(admitted_at_ms=sale.opens_at_ms - 1)),
    )


@corruption("I18", "a request is admitted after the sale has closed")
def after_closing(evidence: Evidence) -> Evidence:
    sale = first(evidence.sales)
    record = first(evidence.requests, lambda record: record.sale_id == sale.id)
    return replace(
        evidence, requests=with_replaced(evidence.requests, record, record._replace(admitted_at_ms=sale.closes_at_ms))
    )


@corruption("I19", "a request is reserved after its deadline")
def granted_late(evidence: Evidence) -> Evidence:
    row = first(evidence.decisions, lambda row: row.decision == RESERVED)
    return replace(
        evidence, decisions=with_replaced(evidence.decisions, row, row._replace(decided_at_ms=row.deadline_ms + 1))
    )


@corruption("I23", "events wait in an outbox although the run is idle")
def stuck_outbox(evidence: Evidence) -> Evidence:
    return replace(evidence, unpublished={"orders": 1})


@corruption("I23", "an unreadable record is skipped without a dead letter")
def poison_dropped(evidence: Evidence) -> Evidence:
    record = first(evidence.requests)
    bad = Unreadable("purchase.requests", record.position, "no JSON")
    return replace(evidence, unreadable=[*evidence.unreadable, bad])


@corruption("I9", "the head of the log was deleted", Verdict.UNKNOWN)
def head_deleted(evidence: Evidence) -> Evidence:
    """Missing records prove nothing then, so the verdict must be UNKNOWN, neither PASS nor FAIL."""
    source = replace(
        evidence.sources[Source.TOPICS], faults=("purchase.requests-0: starts at offset 7, its head was deleted",)
    )
    return replace(
        evidence,
        sources={**evidence.sources, Source.TOPICS: source},
        requests=without_one(evidence.requests, _acked(evidence)),
    )
