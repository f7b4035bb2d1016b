"""Many batches at once on a real Postgres: what must hold, and for each guard the proof that it is the guard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from redis import Redis

from gateway.events import PurchaseRequested
from inventory import beat, gate, operating, rebuild, reserving, rows
from inventory.events import Decision, SaleView, view_key
from inventory.handlers import PurchaseRequests
from inventory.models import Decided, Hold, LedgerEntry, Redelivery, Stock
from inventory.releasing import settle
from orders.events import OrderChanged, OrderEvent
from seckill.streams import statements
from seckill.streams.models import OutboxRow
from seckill.streams.records import Batch, Received
from tests.services import together

FAR_MS = 10**15
UNITS = 10


@pytest.fixture(autouse=True)
def fresh_gate() -> Iterator[None]:
    gate.redis.cache_clear()
    gate._script.cache_clear()
    yield


@pytest.fixture
def stock() -> Stock:
    return operating.create("Gong", "phone", UNITS, 100, 1, 0, FAR_MS)


def request(stock: Stock, user: str, quantity: int = 1, request_id: UUID | None = None) -> PurchaseRequested:
    return PurchaseRequested(request_id or uuid4(), user, stock.sale_id, stock.sku, quantity, 0, FAR_MS)


def batch(partition: int, requests: list[PurchaseRequested], start: int = 0) -> Batch:
    records = [
        Received("purchase.requests", partition, start + at, 0, each.user_id, each.envelope())
        for at, each in enumerate(requests)
    ]
    return Batch("cluster", "topic-id", "purchase.requests", partition, records)


def work(each: Batch) -> None:
    """As the consume loop does it: one transaction, and once more if somebody was faster."""
    for _ in range(20):
        try:
            with transaction.atomic():
                reserving.reserve(each)
            return
        except rows.Overtaken:
            continue
    raise AssertionError("overtaken twenty times")


def classes() -> Counter[str]:
    return Counter(Decided.objects.values_list("decision", flat=True))


def assert_books_balance(stock: Stock, reserved: int) -> None:
    stock.refresh_from_db()
    assert (stock.available, stock.reserved, stock.sold) == (UNITS - reserved, reserved, 0)
    accounts: Counter[str] = Counter()
    for entry in LedgerEntry.objects.filter(stock=stock):
        accounts[entry.debit] -= entry.units
        accounts[entry.credit] += entry.units
    assert (accounts["available"], accounts["reserved"]) == (stock.available, stock.reserved)
    assert stock.version == LedgerEntry.objects.filter(stock=stock).count()
    assert Hold.objects.filter(stock=stock, state="reserved").count() == reserved


def crowd(stock: Stock, batches: int = 8, each: int = 5) -> list[Callable[[], None]]:
    return [
        partial(work, batch(partition, [request(stock, f"user-{partition}-{at}") for at in range(each)]))
        for partition in range(batches)
    ]


# ── the row's lock ───────────────────────────────────────────────────────────────────────────────


def test_batches_at_once_sell_every_unit_once(stock: Stock) -> None:
    assert together(crowd(stock)) == [None] * 8
    assert classes() == {"RESERVED": UNITS, "SOLD_OUT": 30}
    assert_books_balance(stock, UNITS)


def test_what_is_decided_stays_decided_if_nobody_can_be_shown_it(stock: Stock) -> None:
    """A Redis that goes away after COMMIT: an error out of there would look as if the batch had failed."""
    with mock.patch("inventory.views.show", side_effect=ConnectionError("Redis is away")) as shown:
        work(batch(0, [request(stock, "user")]))
    assert shown.called and classes() == {"RESERVED": 1}


@contextmanager
def without_the_row_as_arbiter() -> Iterator[None]:
    """Read then write: no lock, no version, no check — the design everybody writes first."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE inventory_stock DROP CONSTRAINT inventory_stock_never_negative")
        cursor.execute("ALTER TABLE inventory_ledger DROP CONSTRAINT inventory_ledger_version")

    def read_only(ids: object) -> dict[int, Stock]:
        found = {each.id: each for each in Stock.objects.select_related("sale").filter(id__in=set(ids))}  # type: ignore[call-overload]
        if found:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_sleep(0.2)")
        return found

    def take(stock: Stock, granted: list[reserving.Arrived]) -> None:
        units = sum(each.request.quantity for each in granted)
        Stock.objects.filter(id=stock.id).update(available=stock.available - units, reserved=stock.reserved + units)

    with mock.patch.object(reserving, "lock_stocks", read_only), mock.patch.object(reserving, "_take", take):
        yield
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE inventory_hold, inventory_ledger, inventory_gate_sync, inventory_stock CASCADE")
        cursor.execute(
            "ALTER TABLE inventory_stock ADD CONSTRAINT inventory_stock_never_negative "
            "CHECK (available >= 0 AND reserved >= 0 AND sold >= 0)"
        )
        cursor.execute(
            "ALTER TABLE inventory_ledger ADD CONSTRAINT inventory_ledger_version UNIQUE (stock_id, version)"
        )


def test_without_the_lock_the_same_crowd_is_sold_more_than_there_is(stock: Stock) -> None:
    with without_the_row_as_arbiter():
        with mock.patch.object(gate, "propose", side_effect=_closed):
            assert together(crowd(stock)) == [None] * 8
        assert Hold.objects.count() > UNITS


def _closed(sale_id: int, sku: str, epoch: int, requests: list[tuple[UUID, int]]) -> list[gate.Proposal]:
    """A gate that knows nothing, so that the row alone is on trial."""
    return [gate.Proposal.CLOSED for _ in requests]


# ── one purchase of a user ───────────────────────────────────────────────────────────────────────


def test_a_user_who_asks_in_many_batches_at_once_gets_one_unit(stock: Stock) -> None:
    """The same key goes to one partition, so this takes a zombie: the partial index is the last wall."""
    together([partial(work, batch(partition, [request(stock, "greedy")])) for partition in range(6)])
    assert Hold.objects.filter(user_id="greedy").count() == 1


# ── the inbox ────────────────────────────────────────────────────────────────────────────────────


def test_a_request_delivered_again_has_its_old_decision_and_touches_nothing(stock: Stock) -> None:
    asked = request(stock, "ann")
    work(batch(0, [asked]))
    work(batch(0, [asked, request(stock, "bob")], start=1))
    assert classes() == {"RESERVED": 2}
    assert Redelivery.objects.count() == 1
    assert_books_balance(stock, 2)


def test_an_old_request_of_a_user_who_has_bought_again_since_stays_what_it_was(stock: Stock) -> None:
    old, new = request(stock, "ann"), request(stock, "ann")
    work(batch(0, [old]))
    give_back(stock, old)
    work(batch(0, [new], start=1))
    work(batch(0, [old], start=2))
    assert classes() == {"RESERVED": 2}
    assert list(Hold.objects.filter(state="reserved").values_list("request_id", flat=True)) == [new.request_id]
    stock.refresh_from_db()
    assert (stock.available, stock.reserved) == (UNITS - 1, 1)


def test_without_the_inbox_a_redelivery_would_be_decided_anew(stock: Stock) -> None:
    asked = request(stock, "ann")
    work(batch(0, [asked]))
    with (
        mock.patch.object(rows, "decided_before", lambda requests: set()),
        pytest.raises(AssertionError, match="overtaken"),
    ):
        work(batch(0, [asked], start=1))
    assert classes() == {"RESERVED": 1}  # the unique key is the second wall


def test_what_stops_a_row_for_another_reason_is_no_rival(stock: Stock) -> None:
    """A rival passes, and the batch is tried again; a mistake would be tried for ever."""
    entry = (stock.version + 1, 1, uuid4())
    with transaction.atomic(), rows.overtaken():
        rows.insert_reserved(stock.id, [entry])
    with pytest.raises(rows.Overtaken), transaction.atomic(), rows.overtaken():
        rows.insert_reserved(stock.id, [entry])
    with pytest.raises(IntegrityError, match="inventory_ledger_moves"), transaction.atomic(), rows.overtaken():
        rows.insert_reserved(stock.id, [(stock.version + 2, 0, uuid4())])


@pytest.mark.parametrize("column", ["request_id", "user_id"])
def test_what_is_looked_for_is_not_looked_for_in_all_of_a_sale_that_has_grown(column: str) -> None:
    """Grown since Postgres last counted it, as in a rush."""
    stock = operating.create("Gong", "phone", 2000, 100, 1, 0, FAR_MS)
    work(batch(0, [request(stock, f"user-{number}") for number in range(2000)]))
    looks: dict[str, tuple[str, list[Any]]] = {
        "request_id": (rows._DECIDED_BEFORE, [[uuid4()] * 500]),
        "user_id": (rows._HOLDERS, [["user"] * 500, stock.sale_id]),
    }
    statement, asked = looks[column]
    plan = [row[0] for row in statements.fetch(f"EXPLAIN {statement}", asked)]
    assert any("Index Cond" in line and f"= asked.{column})" in line for line in plan), plan


# ── settlement ───────────────────────────────────────────────────────────────────────────────────


def give_back(stock: Stock, asked: PurchaseRequested, event: OrderEvent = OrderEvent.EXPIRED, times: int = 1) -> None:
    changed = OrderChanged(
        event, uuid4(), asked.request_id, asked.user_id, stock.sale_id, stock.sku, asked.quantity, 100, 0, 0
    )
    envelope = changed.envelope(None, None)
    for _ in range(times):
        with transaction.atomic():
            settle(envelope, changed)


def test_a_unit_comes_back_once_however_often_its_event_comes(stock: Stock) -> None:
    asked = request(stock, "ann")
    work(batch(0, [asked]))
    give_back(stock, asked, times=3)
    give_back(stock, asked)  # another event about the same hold
    assert_books_balance(stock, 0)


def test_paid_and_expired_at_once_are_never_both_posted(stock: Stock) -> None:
    asked = request(stock, "ann")
    work(batch(0, [asked]))
    ends = [partial(give_back, stock, asked, event) for event in (OrderEvent.PAID, OrderEvent.EXPIRED)]
    assert together(ends) == [None, None]
    stock.refresh_from_db()
    assert stock.reserved == 0
    assert (stock.sold, stock.available) in {(1, UNITS - 1), (0, UNITS)}


def settled(stock: Stock, asked: PurchaseRequested, event: OrderEvent, returned_units: int = 0) -> None:
    changed = OrderChanged(
        event, uuid4(), asked.request_id, "ann", stock.sale_id, stock.sku, 1, 100, 0, 0, returned_units=returned_units
    )
    with transaction.atomic():
        settle(changed.envelope(None, None), changed)


@pytest.mark.parametrize("is_replayed_late", [False, True])
def test_units_of_a_refund_come_back_even_if_its_payment_is_replayed_afterwards(
    stock: Stock, is_replayed_late: bool
) -> None:
    """OrderPaid was a dead letter when OrderRefunded came."""
    asked = request(stock, "ann")
    work(batch(0, [asked]))
    turns = [(OrderEvent.PAID, 0), (OrderEvent.REFUNDED, 1)]
    for event, returned_units in reversed(turns) if is_replayed_late else turns:
        settled(stock, asked, event, returned_units)
    assert_books_balance(stock, 0)
    kinds = LedgerEntry.objects.filter(request_id=asked.request_id).order_by("version").values_list("kind", flat=True)
    assert list(kinds) == ["reserve", "sell", "return"]


# ── Redis proposes ───────────────────────────────────────────────────────────────────────────────


def granted(redis: Redis, stock: Stock) -> set[str]:
    stock.refresh_from_db()
    return {str(name) for name in redis.hkeys(gate.keys(stock.sale_id, stock.sku, stock.gate_epoch)[1])}


def holders(stock: Stock) -> set[str]:
    active = Hold.objects.filter(stock=stock, state__in=("reserved", "sold"))
    return {str(request_id) for request_id in active.values_list("request_id", flat=True)}


def test_the_gate_knows_the_holders_by_name_after_a_rush_and_after_returns(stock: Stock, redis: Redis) -> None:
    together(crowd(stock))
    assert granted(redis, stock) == holders(stock)
    first = Decided.objects.filter(decision="RESERVED").first()
    assert first is not None
    give_back(stock, request(stock, first.user_id, request_id=first.request_id))
    assert granted(redis, stock) == holders(stock)
    assert len(holders(stock)) == UNITS - 1


def test_a_flushed_redis_is_closed_not_sold_out_and_comes_back_by_itself(stock: Stock, redis: Redis) -> None:
    work(batch(0, [request(stock, "ann")]))
    redis.flushall()
    work(batch(0, [request(stock, "bob")], start=1))
    assert classes() == {"RESERVED": 2}
    assert granted(redis, stock) == holders(stock)


def test_after_a_flush_the_beat_shows_the_sale_and_opens_its_gate_again(stock: Stock, redis: Redis) -> None:
    work(batch(0, [request(stock, "ann")]))
    redis.flushall()
    beat.heal()
    assert SaleView.decode(str(redis.get(view_key(stock.sale_id)))).reserved == 1
    assert granted(redis, stock) == holders(stock)
    epoch = stock.gate_epoch
    beat.heal()
    stock.refresh_from_db()
    assert stock.gate_epoch == epoch


def test_a_redis_that_was_started_again_with_old_data_is_counted_anew_once(stock: Stock, redis: Redis) -> None:
    """What it has looks whole, so only its new life tells that it may be old."""
    work(batch(0, [request(stock, "ann")]))
    beat.heal()
    stock.refresh_from_db()
    free, grants = gate.keys(stock.sale_id, stock.sku, stock.gate_epoch)
    redis.incr(free)
    redis.delete(grants)
    beat.heal()
    assert granted(redis, stock) != holders(stock), "the control: nobody sees it in the life in which it was counted"
    redis.set(gate.RUN_KEY, "the life before")
    beat.heal()
    stock.refresh_from_db()
    assert granted(redis, stock) == holders(stock)
    epoch = stock.gate_epoch
    beat.heal()
    stock.refresh_from_db()
    assert stock.gate_epoch == epoch


def test_a_gate_counted_anew_between_proposal_and_lock_still_knows_who_wins(stock: Stock, redis: Redis) -> None:
    stock.refresh_from_db()
    epoch, propose = stock.gate_epoch, gate.propose

    def then_counted_anew(*asked: Any) -> list[gate.Proposal]:
        proposals = propose(*asked)
        assert together([partial(rebuild.rebuild, stock.id, epoch)]) == [True]
        return proposals

    with mock.patch.object(gate, "propose", then_counted_anew):
        work(batch(0, [request(stock, "ann")]))
    assert len(holders(stock)) == 1
    assert granted(redis, stock) == holders(stock)


def test_a_count_that_is_owed_outlives_the_process_that_owed_it(stock: Stock, redis: Redis) -> None:
    redis.set(gate.keys(stock.sale_id, stock.sku, 1)[0], 0)
    with mock.patch.object(rebuild, "after_commit"):
        work(batch(0, [request(stock, "ann")]))
    assert granted(redis, stock) != holders(stock)
    beat.heal()
    assert granted(redis, stock) == holders(stock)


def test_a_return_is_not_forgotten_by_a_gate_that_is_counted_anew_while_it_is_told(stock: Stock, redis: Redis) -> None:
    """Somebody tells the gate of Ann's return; meanwhile it is counted anew, and only then Bob's comes."""
    ann, bob = request(stock, "ann"), request(stock, "bob")
    work(batch(0, [ann, bob]))
    stock.refresh_from_db()
    look = Stock.objects.get

    def then_counted_anew(**which: Any) -> Stock:
        found = look(**which)
        assert together([partial(rebuild.rebuild, stock.id, found.gate_epoch)]) == [True]
        give_back(stock, bob)
        return found

    with mock.patch.object(rebuild, "sync_after_commit"):
        give_back(stock, ann)
        with mock.patch.object(Stock.objects, "get", then_counted_anew):
            rebuild.sync(stock.id)
    rebuild.sync(stock.id)
    assert granted(redis, stock) == holders(stock) == set()


def test_a_counter_raised_by_hand_is_refused_by_the_row_and_healed(stock: Stock, redis: Redis) -> None:
    redis.incrby(gate.keys(stock.sale_id, stock.sku, 1)[0], 50)
    together(crowd(stock))
    assert classes()["RESERVED"] == UNITS
    assert granted(redis, stock) == holders(stock)
    assert redis.get(gate.keys(stock.sale_id, stock.sku, stock.gate_epoch)[0]) == "0"


def test_a_counter_lowered_by_hand_hides_no_unit(stock: Stock, redis: Redis) -> None:
    redis.set(gate.keys(stock.sale_id, stock.sku, 1)[0], 0)
    work(batch(0, [request(stock, "ann")]))
    assert classes() == {"RESERVED": 1}


def test_a_refusal_rests_on_a_version_at_which_there_was_too_little(stock: Stock) -> None:
    together(crowd(stock))
    available = {0: 0}
    for entry in LedgerEntry.objects.filter(stock=stock).order_by("version"):
        change = entry.units if entry.credit == "available" else -entry.units
        available[entry.version] = available[entry.version - 1] + change
    refusals = Decided.objects.filter(decision=Decision.SOLD_OUT)
    assert refusals.count() == 30
    assert all(available[each.stock_version] < each.quantity for each in refusals)


def test_two_who_find_the_gate_wrong_count_it_anew_once(stock: Stock) -> None:
    stock.refresh_from_db()
    epoch = stock.gate_epoch
    done = together([partial(rebuild.rebuild, stock.id, epoch)] * 4)
    assert Counter(done) == {True: 1, False: 3}
    stock.refresh_from_db()
    assert stock.gate_epoch == epoch + 1


def test_the_gate_of_an_old_epoch_goes_by_itself_and_that_of_the_new_one_stays(stock: Stock, redis: Redis) -> None:
    stock.refresh_from_db()
    old = gate.keys(stock.sale_id, stock.sku, stock.gate_epoch)
    work(batch(0, [request(stock, "ann")]))
    rebuild.rebuild(stock.id, stock.gate_epoch)
    stock.refresh_from_db()
    assert all(0 < int(redis.pttl(key)) <= gate.OLD_EPOCH_MS for key in old)
    assert [redis.pttl(key) for key in gate.keys(stock.sale_id, stock.sku, stock.gate_epoch)] == [-1, -1]


def test_where_nothing_is_left_nobody_asks_the_gate_and_a_returned_unit_is_found_all_the_same(
    stock: Stock, redis: Redis
) -> None:
    asked = [request(stock, f"user-{number}") for number in range(UNITS)]
    work(batch(0, asked))
    with mock.patch.object(gate, "propose", side_effect=AssertionError("asked")):
        work(batch(0, [request(stock, "late")], start=UNITS))
    give_back(stock, asked[0])
    work(batch(0, [request(stock, "later")], start=UNITS + 1))
    assert classes() == {"RESERVED": UNITS + 1, "SOLD_OUT": 1}
    assert granted(redis, stock) == holders(stock)


# ── dead letters ─────────────────────────────────────────────────────────────────────────────────


def discard(each: Batch) -> None:
    with transaction.atomic():
        PurchaseRequests().discard(each)


def test_a_request_that_is_given_up_is_invalid_and_told_so_and_the_stock_is_as_it_was(stock: Stock) -> None:
    discard(batch(0, [request(stock, "ann")]))
    assert classes() == {"INVALID": 1}
    assert OutboxRow.objects.count() == 1
    assert_books_balance(stock, 0)


def test_a_request_that_was_decided_meanwhile_stays_what_it_is_when_its_letter_is_given_up(stock: Stock) -> None:
    asked = request(stock, "ann")
    work(batch(0, [asked]))
    discard(batch(0, [asked], start=1))
    assert classes() == {"RESERVED": 1}
    assert_books_balance(stock, 1)
