"""The purchase path, on a real Redis, with a slot writer that does what the test wants."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError
from redis import Redis

from gateway import purchase, purchase_queue
from gateway.purchase import Accepted, Purchases
from gateway.purchase_queue import _UnderWay
from gateway.time_limit import TimeLimit
from inventory.events import SaleView
from seckill.messaging.slots import NoLease, SlotUnavailable
from seckill.resilience.circuit_breaker import Permit
from seckill.web.problems import Problem
from tests.concurrency.gateway_purchase_cast import (
    SALE,
    Writer,
    buy,
    buy_together,
    call,
    make_purchases,
    open_sale,
    position_of,
    start,
)
from tests.services import until


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def purchases(redis: Redis, monkeypatch: pytest.MonkeyPatch, writer: Writer) -> Purchases:
    open_sale(redis, monkeypatch)
    return make_purchases(writer)


def test_every_caller_gets_the_position_of_its_own_request(purchases: Purchases, writer: Writer) -> None:
    names = [f"user-{number}" for number in range(40)]
    answers = buy_together(purchases, [call(name) for name in names])
    for name, answer in zip(names, answers, strict=True):
        assert isinstance(answer, Accepted)
        record = writer.sent[position_of(answer)[2]]
        assert record["key"] == name.encode()
        assert answer.request_id.encode() in record["value"]
        assert record["headers"][0][0] == "traceparent"


def test_equal_simultaneous_calls_are_one_record_and_a_later_one_adds_none(
    purchases: Purchases, writer: Writer
) -> None:
    same = call()
    answers = [*buy_together(purchases, [same] * 20), buy(purchases, same)]
    assert len(writer.sent) == 1
    assert {position_of(answer) for answer in answers if isinstance(answer, Accepted)} == {("purchase.requests", 0, 0)}
    assert not any(isinstance(answer, BaseException) for answer in answers)


class WithoutJoining(dict[UUID, _UnderWay]):
    """In place of the table of requests under way: an equal call finds nothing there to join."""

    def __init__(self) -> None:
        self.all: list[_UnderWay] = []

    def get(self, key: UUID, default: Any = None) -> Any:
        return None

    def __setitem__(self, key: UUID, under_way: _UnderWay) -> None:
        self.all.append(under_way)

    def pop(self, key: UUID, *default: Any) -> _UnderWay:
        return self.all.pop(0)


@pytest.mark.parametrize(("joins", "records"), [(True, 1), (False, 20)])
def test_equal_calls_join_the_one_under_way_and_without_joining_each_is_a_record(
    purchases: Purchases, writer: Writer, joins: bool, records: int
) -> None:
    """The second case is the control: with joining switched off, the same twenty calls are twenty records."""
    writer.is_stalled = True
    if not joins:
        purchases.queue._under_way = WithoutJoining()
    same = call()
    calls = [start(purchases, same) for _ in range(20)]
    until(lambda: len(writer.sent) == records and purchases.waiting_count == 20, "all callers to wait")
    writer.acknowledge_held()
    assert all(each.result(10).request_id for each in calls)
    assert len(writer.sent) == records


def test_a_refused_request_is_not_sent(redis: Redis, monkeypatch: pytest.MonkeyPatch, writer: Writer) -> None:
    fields = {name: getattr(SALE, name) for name in SALE.__slots__}
    open_sale(redis, monkeypatch, SaleView(**(fields | {"available": 0, "sold": 1000})))
    with pytest.raises(Problem) as refused:
        buy(make_purchases(writer), call())
    assert refused.value.kind == "sold-out"
    assert writer.sent == []


def test_while_the_broker_stalls_a_limited_number_waits_and_the_rest_are_refused(
    purchases: Purchases, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    purchases.limit = TimeLimit(30.0)
    monkeypatch.setattr(purchase, "WAITING_MAX", 50)
    writer.is_stalled = True
    inside = [start(purchases, call(f"user-{number}")) for number in range(50)]
    until(lambda: len(writer.held) == 50, "all places to be taken")
    with pytest.raises(Problem) as refused:
        buy(purchases, call("late"))
    assert (refused.value.status, refused.value.kind) == (503, "queue-unavailable")
    writer.acknowledge_held()
    assert all(isinstance(each.result(20), Accepted) for each in inside)
    assert purchases.waiting_count == 0
    assert isinstance(buy(purchases, call("late")), Accepted)


def test_a_caller_that_times_out_is_told_that_the_outcome_is_unknown_and_frees_its_place(
    purchases: Purchases, writer: Writer
) -> None:
    purchases.limit = TimeLimit(0.2)
    writer.is_stalled = True
    mine = call()
    with pytest.raises(Problem) as late:
        buy(purchases, mine)
    assert (late.value.status, late.value.kind, late.value.retry_after_s) == (503, "queue-unknown", 1)
    assert purchases.waiting_count == 0
    writer.acknowledge_held()
    assert position_of(buy(purchases, mine)) == ("purchase.requests", 0, 0)
    assert len(writer.sent) == 1, "the retry is the same event"


def test_a_cancelled_caller_frees_its_place_and_others_that_joined_it_get_their_answer(
    purchases: Purchases, writer: Writer
) -> None:
    writer.is_stalled = True
    same = call()
    gone, stays = start(purchases, same), start(purchases, same)
    until(lambda: len(writer.held) == 1 and purchases.waiting_count == 2, "both to wait")
    gone.cancel()
    until(lambda: purchases.waiting_count == 1, "the place to be free")
    writer.acknowledge_held()
    assert isinstance(stays.result(10), Accepted)


def test_an_unknown_outcome_is_never_called_a_failure_and_the_retry_is_the_same_event(
    purchases: Purchases, writer: Writer
) -> None:
    writer.fault = KafkaTimeoutError("no answer")
    mine = call()
    with pytest.raises(Problem) as failed:
        buy(purchases, mine)
    assert (failed.value.status, failed.value.kind, failed.value.retry_after_s) == (503, "queue-unknown", 1)
    writer.fault = None
    close_breaker(purchases)
    assert buy(purchases, mine).request_id
    assert len(writer.sent) == 1


def close_breaker(purchases: Purchases) -> None:
    purchases.queue.breakers.record_acknowledged(("purchase.requests", 0), time.monotonic())


def open_breaker(purchases: Purchases, at: float) -> None:
    """`at`: monotonic seconds of the failure; long ago means that a probe is due."""
    purchases.queue.breakers.record_failed([("purchase.requests", 0)], at)


def test_a_failure_opens_the_breaker_and_an_acknowledgement_closes_it(purchases: Purchases, writer: Writer) -> None:
    writer.fault = KafkaConnectionError("gone")
    with pytest.raises(Problem):
        buy(purchases, call())
    with pytest.raises(Problem, match="accepts no requests"):
        buy(purchases, call("bob"))
    assert purchases.queue.breaker_state() == 2
    writer.fault = None
    purchases.queue.breakers = make_purchases(writer).queue.breakers
    assert buy(purchases, call("bob")).request_id
    assert purchases.queue.breaker_state() == 0


def test_retries_during_an_open_breaker_do_not_keep_it_open(purchases: Purchases, writer: Writer) -> None:
    writer.fault = KafkaConnectionError("gone")
    known = call()
    with pytest.raises(Problem):
        buy(purchases, known)
    writer.fault = None
    with pytest.raises(Problem) as refused:
        buy(purchases, known)
    assert refused.value.kind == "queue-unknown"
    assert writer.sent == [], "an open breaker stops a known request without a position, too"
    open_breaker(purchases, at=time.monotonic() - purchase_queue.BREAKER_OPEN_S)
    assert buy(purchases, known).request_id, "the next one is the probe"


@pytest.mark.parametrize("junk", [{"ticket": ""}, {"ticket": "forged"}, {"key": "one", "quantity": 2}])
def test_refused_calls_do_not_use_up_the_breakers_probe(
    purchases: Purchases, writer: Writer, junk: dict[str, Any]
) -> None:
    buy(purchases, call("known"))
    purchases.queue.breakers = make_purchases(writer).queue.breakers
    open_breaker(purchases, at=-1000.0)  # half-open: one probe is allowed
    for _ in range(20):
        with pytest.raises(Problem) as refused:
            buy(purchases, call("known", **junk) if "quantity" in junk else call("junk", **junk))
        assert refused.value.kind in ("ticket-missing", "ticket-invalid", "key-reused")
    assert purchases.queue.breakers.permit(None, time.monotonic()) is Permit.PROBE
    assert purchases.queue.breakers.permit(None, time.monotonic()) is Permit.NO, "the control: a probe under way"
    purchases.queue.breakers.give_back(None, time.monotonic())
    assert buy(purchases, call("honest")).request_id
    assert purchases.queue.breakers.permit(None, time.monotonic()) is Permit.YES


def test_an_expired_slot_lease_is_answered_as_queue_unavailable(purchases: Purchases, writer: Writer) -> None:
    """Database or broker stall. No slot is moving, so `queue-moving` would be wrong."""
    writer.fault = NoLease("the lease has expired")
    mine = call()
    for kind in ("queue-unavailable", "queue-unknown"):  # a known request may still be under way
        with pytest.raises(Problem) as refused:
            buy(purchases, mine)
        assert (refused.value.status, refused.value.kind) == (503, kind)


def test_a_moving_slot_refuses_only_its_own_buyers(purchases: Purchases, writer: Writer) -> None:
    writer.fault = SlotUnavailable("slot 7 is being moved")
    with pytest.raises(Problem) as refused:
        buy(purchases, call())
    assert (refused.value.status, refused.value.kind) == (503, "queue-moving")
    writer.fault = None
    assert buy(purchases, call("bob")).request_id


def test_before_the_queue_was_reached_requests_are_refused_and_the_process_stays_responsive(
    purchases: Purchases, writer: Writer
) -> None:
    purchases.queue.producer.writer = None
    with pytest.raises(Problem) as refused:
        buy(purchases, call())
    assert (refused.value.status, refused.value.kind) == (503, "queue-unavailable")


def test_an_internal_error_is_reported_and_does_not_block_the_retry(purchases: Purchases, writer: Writer) -> None:
    writer.fault = ValueError("no such partition")
    mine = call()
    with pytest.raises(ValueError, match="no such partition"):
        buy(purchases, mine)
    writer.fault = None
    assert buy(purchases, mine).request_id
