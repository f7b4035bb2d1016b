"""The gate beside the row over time: large sales, sales that have ended, and grants that nobody has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock
from uuid import uuid4

import pytest
from django.db import transaction
from redis import Redis
from redis.exceptions import ConnectionError as RedisAway

from gateway.events import PurchaseRequested
from inventory import beat, gate, operating, rebuild, reserving, strays
from inventory.handlers import PurchaseRequests
from inventory.models import Decided, GateSync, Hold, Sale, Stock
from inventory.releasing import settle
from orders.events import OrderChanged, OrderEvent
from seckill.streams import letters, offsets
from seckill.streams.models import DeadLetter
from seckill.streams.records import Batch, Received
from seckill.streams.working import MOST_DEATHS, Worker
from tests.services import together

FAR_MS = 10**15
UNITS = 50


@pytest.fixture(autouse=True)
def fresh_gate() -> Iterator[None]:
    gate.redis.cache_clear()
    gate._script.cache_clear()
    gate._patient_redis.cache_clear()
    strays._cursors.clear()
    yield


@pytest.fixture
def stock() -> Stock:
    stock = operating.create("Gong", "phone", UNITS, 100, 1, 0, FAR_MS)
    stock.refresh_from_db()
    return stock


def request(stock: Stock, user: str) -> PurchaseRequested:
    return PurchaseRequested(uuid4(), user, stock.sale_id, stock.sku, 1, 0, FAR_MS)


def batch(requests: list[PurchaseRequested], start: int = 0) -> Batch:
    records = [
        Received("purchase.requests", 0, start + at, 0, each.user_id, each.envelope())
        for at, each in enumerate(requests)
    ]
    return Batch("cluster", "topic-id", "purchase.requests", 0, records)


def reserve(requests: list[PurchaseRequested], start: int = 0) -> None:
    with transaction.atomic():
        reserving.reserve(batch(requests, start))


def give_back(asked: PurchaseRequested) -> None:
    changed = OrderChanged(
        OrderEvent.EXPIRED, uuid4(), asked.request_id, asked.user_id, asked.sale_id, asked.sku, 1, 100, 0, 0
    )
    with transaction.atomic():
        settle(changed.envelope(None, None), changed)


def granted(redis: Redis, stock: Stock) -> set[str]:
    stock.refresh_from_db()
    return {str(name) for name in redis.hkeys(gate.keys(stock.sale_id, stock.sku, stock.gate_epoch)[1])}


def free(redis: Redis, stock: Stock) -> int:
    return int(str(redis.get(gate.keys(stock.sale_id, stock.sku, stock.gate_epoch)[0])))


def holders(stock: Stock) -> set[str]:
    active = Hold.objects.filter(stock=stock, state__in=("reserved", "sold"))
    return {str(request_id) for request_id in active.values_list("request_id", flat=True)}


def assert_gate_is_right(redis: Redis, stock: Stock) -> None:
    assert granted(redis, stock) == holders(stock)
    assert free(redis, stock) == stock.available


# ── counting again ───────────────────────────────────────────────────────────────────────────────


def test_a_gate_is_counted_in_slices_while_units_go_and_come_back(
    stock: Stock, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two slices others buy and return, before and behind the place where the count is."""
    monkeypatch.setattr(rebuild, "SLICE", 3)
    monkeypatch.setattr(rebuild, "CLOSE", 2)
    held = [request(stock, f"user-{number:02}") for number in range(10)]
    reserve(held)
    late = [request(stock, f"user-{number:02}x") for number in range(10)]
    moves: list[Callable[[], None]] = []
    for number in range(4):
        moves.append(partial(give_back, held[number * 2]))
        moves.append(partial(reserve, [late[number * 2]], 20 + number))
    todo = iter([moves[:3], moves[3:6], moves[6:]])
    slices: list[int] = []

    def between() -> None:
        slices.append(1)
        for move in next(todo, []):
            move()

    redis.flushall()
    with mock.patch.object(rebuild, "after_commit"), mock.patch.object(rebuild, "sync_after_commit"):
        assert rebuild.rebuild(stock.id, stock.gate_epoch, between)
    assert len(slices) >= 4
    assert_gate_is_right(redis, stock)
    assert len(holders(stock)) == 10


def test_the_row_is_not_locked_while_its_holds_are_read(stock: Stock, redis: Redis) -> None:
    reserve([request(stock, f"user-{number}") for number in range(10)])

    def between() -> None:
        assert together([partial(reserve, [request(stock, "another")], 100)]) == [None]

    with mock.patch.object(rebuild, "after_commit"):
        assert rebuild.rebuild(stock.id, stock.gate_epoch, between)
    assert_gate_is_right(redis, stock)


def test_a_count_that_redis_loses_on_the_way_is_not_opened(
    stock: Stock, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "SLICE", 3)
    reserve([request(stock, f"user-{number}") for number in range(10)])
    with pytest.raises(gate.Lost):
        rebuild.rebuild(stock.id, stock.gate_epoch, redis.flushall)
    assert not gate.is_open(stock.sale_id, stock.sku, stock.gate_epoch)
    beat.heal()
    assert_gate_is_right(redis, stock)


def test_a_gate_that_cannot_be_counted_does_not_keep_the_sweep_from_the_others(stock: Stock, redis: Redis) -> None:
    other = operating.create("Bell", "phone", UNITS, 100, 1, 0, FAR_MS)
    redis.flushall()
    count = rebuild.rebuild

    def away_for_one(stock_id: int, *more: Any, **named: Any) -> bool:
        if stock_id == stock.id:
            raise RedisAway("away")
        return count(stock_id, *more, **named)

    with mock.patch.object(rebuild, "rebuild", away_for_one):
        beat.heal()
    assert_gate_is_right(redis, other)
    beat.heal()
    assert_gate_is_right(redis, stock)


def test_a_large_sale_is_left_to_the_sweep(stock: Stock, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer would otherwise count a million holds after each batch."""
    reserve([request(stock, "ann")])
    monkeypatch.setattr(rebuild, "SMALL", 0)
    redis.flushall()
    reserve([request(stock, "bob")], 1)
    assert redis.dbsize() == 0 or not gate.is_open(stock.sale_id, stock.sku, stock.gate_epoch)
    beat.heal()
    assert_gate_is_right(redis, stock)


def test_two_who_remove_what_the_gate_was_told_do_not_wait_for_each_other(stock: Stock, redis: Redis) -> None:
    GateSync.objects.bulk_create([GateSync(stock=stock, request_id=uuid4(), action="release") for _ in range(500)])
    told = together([partial(rebuild.sync, stock.id)] * 4)
    assert all(isinstance(each, int) for each in told), told
    while rebuild.sync(stock.id):
        pass
    assert not GateSync.objects.exists()


# ── sales that have ended ────────────────────────────────────────────────────────────────────────


def test_a_closed_sale_whose_gate_is_gone_is_retired_and_not_counted_again(stock: Stock, redis: Redis) -> None:
    reserve([request(stock, "ann")])
    beat.heal()
    operating.set_state(stock.sale_id, "closed")
    beat.heal()
    stock.refresh_from_db()
    assert not stock.gate_retired, "its gate is kept for an hour, so that a report can compare it"
    assert_gate_is_right(redis, stock)
    epoch = stock.gate_epoch
    redis.flushall()
    reserve([request(stock, "bob")], 1)
    beat.heal()
    stock.refresh_from_db()
    assert (stock.gate_retired, stock.gate_epoch) == (True, epoch)
    assert Decided.objects.get(user_id="bob").decision == "CLOSED"
    with mock.patch.object(gate, "propose") as asked:
        reserve([request(stock, "cleo")], 2)
    assert not asked.called


@pytest.mark.parametrize("how", ["closed", "over"])
def test_an_hour_after_its_end_a_sale_has_no_keys_in_the_gate(stock: Stock, redis: Redis, how: str) -> None:
    reserve([request(stock, "ann")])
    sale = Sale.objects.filter(id=stock.sale_id)
    if how == "closed":
        operating.set_state(stock.sale_id, "closed")
        sale.update(closed_at_ms=1)
    else:
        sale.update(closes_at_ms=1)
    beat.heal()
    stock.refresh_from_db()
    assert stock.gate_retired
    assert not [key for key in redis.scan_iter() if ":gate:" in str(key) and redis.ttl(str(key)) == -1]


def test_a_unit_that_comes_back_into_a_retired_sale_owes_the_gate_nothing(stock: Stock, redis: Redis) -> None:
    asked = request(stock, "ann")
    reserve([asked])
    operating.set_state(stock.sale_id, "closed")
    redis.flushall()
    beat.heal()
    give_back(asked)
    beat.heal()
    assert not GateSync.objects.exists()


def test_a_sale_that_sells_after_it_was_retired_has_a_gate_again(stock: Stock, redis: Redis) -> None:
    """Its window is long over, and a request of then is still decided in time: the deadline is set so far."""
    Stock.objects.filter(id=stock.id).update(gate_retired=True)
    stock.refresh_from_db()
    reserve([request(stock, "ann")])
    stock.refresh_from_db()
    assert not stock.gate_retired
    assert_gate_is_right(redis, stock)


# ── grants that nobody has ───────────────────────────────────────────────────────────────────────


def proposed(stock: Stock, asked: PurchaseRequested) -> None:
    """A process has asked the gate, and died."""
    stock.refresh_from_db()
    assert gate.propose(stock.sale_id, stock.sku, stock.gate_epoch, [(asked.request_id, 1)]) == [gate.Proposal.GRANTED]


def test_a_grant_of_a_request_that_another_process_refused_is_given_back(stock: Stock, redis: Redis) -> None:
    """It sleeps between its look at the inbox and the gate; meanwhile the request is refused, and units come back."""
    sold = [request(stock, f"user-{number}") for number in range(UNITS)]
    reserve(sold)
    zombie = request(stock, "zombie")
    reserve([zombie], 100)
    assert Decided.objects.get(user_id="zombie").decision == "SOLD_OUT"
    give_back(sold[0])
    beat.heal()
    proposed(stock, zombie)
    assert granted(redis, stock) != holders(stock)
    beat.heal()
    assert_gate_is_right(redis, stock)


def test_a_grant_that_is_being_decided_is_left_alone(stock: Stock, redis: Redis) -> None:
    beat.heal()
    asked = request(stock, "ann")
    proposed(stock, asked)
    beat.heal()
    assert granted(redis, stock) == {str(asked.request_id)}
    reserve([asked])
    assert_gate_is_right(redis, stock)


def kafka_record(asked: PurchaseRequested, offset: int) -> Any:
    return SimpleNamespace(
        topic="purchase.requests", partition=0, offset=offset, timestamp=0, key=asked.user_id.encode(),
        value=asked.envelope().encode(), headers=[],
    )  # fmt: skip


def test_a_request_that_killed_its_process_is_buried_and_its_grant_is_for_others(stock: Stock, redis: Redis) -> None:
    asked = request(stock, "ann")
    proposed(stock, asked)
    claim = offsets.claim("cluster", "topic-id", "purchase.requests", 0, "inventory", 0)
    Worker(PurchaseRequests()).work(claim._replace(deaths=MOST_DEATHS), [kafka_record(asked, 0)], 0)
    letter = DeadLetter.objects.get()
    assert_gate_is_right(redis, stock)
    proposed(stock, asked)  # a process that slept, after the burial
    assert letters.discard(letter, PurchaseRequests(), "a test") is None
    assert Decided.objects.get().decision == "INVALID"
    assert_gate_is_right(redis, stock)


def test_a_buried_request_that_is_replayed_gets_its_unit(stock: Stock, redis: Redis) -> None:
    asked = request(stock, "ann")
    proposed(stock, asked)
    claim = offsets.claim("cluster", "topic-id", "purchase.requests", 0, "inventory", 0)
    Worker(PurchaseRequests()).work(claim._replace(deaths=MOST_DEATHS), [kafka_record(asked, 0)], 0)
    assert letters.replay(DeadLetter.objects.get(), PurchaseRequests()) is None
    assert holders(stock) == {str(asked.request_id)}
    assert_gate_is_right(redis, stock)


def test_a_letter_is_buried_though_its_grant_cannot_be_given_back(stock: Stock, redis: Redis) -> None:
    asked = request(stock, "ann")
    claim = offsets.claim("cluster", "topic-id", "purchase.requests", 0, "inventory", 0)
    with mock.patch("inventory.handlers.bury", side_effect=ValueError("a bug")):
        end = Worker(PurchaseRequests()).work(claim._replace(deaths=MOST_DEATHS), [kafka_record(asked, 0)], 0)
    assert end == 1 and DeadLetter.objects.count() == 1
