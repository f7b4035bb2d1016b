"""The cast of the tests of stock: purchase requests, batches of them, and the end of orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID, uuid4

from django.db import transaction
from redis import Redis

from gateway.events import PurchaseRequested
from inventory import batch_sql, gate, reservation, sale_commands, stray_grants
from inventory.models import DecidedRequest, Hold, LedgerEntry, Stock
from inventory.settlement import settle_event
from inventory.states import ACTIVE_HOLDS
from orders.events import OrderChanged, OrderEvent
from seckill.messaging.records import Batch, ReceivedRecord

FAR_MS = 10**15
RETRIES_MAX = 20


def forget_redis_clients() -> None:
    """Clients of an earlier test may point to another Redis."""
    gate.redis.cache_clear()
    gate._script.cache_clear()
    gate._patient_redis.cache_clear()
    stray_grants._cursors.clear()


def create_stock(units: int, name: str = "Gong") -> Stock:
    stock = sale_commands.create_sale(name, "phone", units, 100, 1, 0, FAR_MS)
    stock.refresh_from_db()
    return stock


def request(stock: Stock, user: str, quantity: int = 1, request_id: UUID | None = None) -> PurchaseRequested:
    return PurchaseRequested(request_id or uuid4(), user, stock.sale_id, stock.sku, quantity, 0, FAR_MS)


def batch_of(requests: Sequence[PurchaseRequested], start: int = 0, partition: int = 0) -> Batch:
    records = [
        ReceivedRecord("purchase.requests", partition, start + at, 0, each.user_id, each.envelope())
        for at, each in enumerate(requests)
    ]
    return Batch("cluster", "topic-id", "purchase.requests", partition, records)


def decide(requests: Sequence[PurchaseRequested], start: int = 0, partition: int = 0) -> None:
    """As the consume loop does it: one transaction, repeated if another one was faster."""
    for _ in range(RETRIES_MAX):
        try:
            with transaction.atomic():
                reservation.decide_batch(batch_of(requests, start, partition))
            return
        except batch_sql.ConcurrentUpdate:
            continue
    raise AssertionError("another transaction was always faster")


def crowd(stock: Stock, batches: int = 8, each: int = 5) -> list[Callable[[], None]]:
    """Batches of different partitions and users."""
    return [
        partial(decide, [request(stock, f"user-{partition}-{at}") for at in range(each)], partition=partition)
        for partition in range(batches)
    ]


def settle(
    asked: PurchaseRequested, event: OrderEvent = OrderEvent.EXPIRED, *, returned_units: int = 0, copies: int = 1
) -> None:
    """The order of a request ends; the same event is handled `copies` times."""
    changed = OrderChanged(
        event, uuid4(), asked.request_id, asked.user_id, asked.sale_id, asked.sku, asked.quantity, 100, 0, 0,
        returned_units,
    )  # fmt: skip
    envelope = changed.envelope(None, None)
    for _ in range(copies):
        with transaction.atomic():
            settle_event(envelope, changed)


def decisions() -> Counter[str]:
    return Counter(DecidedRequest.objects.values_list("decision", flat=True))


def active_requests(stock: Stock) -> set[str]:
    active = Hold.objects.filter(stock=stock, state__in=ACTIVE_HOLDS)
    return {str(request_id) for request_id in active.values_list("request_id", flat=True)}


def granted_requests(redis: Redis, stock: Stock) -> set[str]:
    """The requests that the gate remembers in the current epoch."""
    stock.refresh_from_db()
    return {str(name) for name in redis.hkeys(gate.keys(stock.sale_id, stock.sku, stock.gate_epoch)[1])}


def free_units(redis: Redis, stock: Stock) -> int:
    return int(str(redis.get(gate.keys(stock.sale_id, stock.sku, stock.gate_epoch)[0])))


def assert_gate_agrees(redis: Redis, stock: Stock) -> None:
    assert granted_requests(redis, stock) == active_requests(stock)
    assert free_units(redis, stock) == stock.available


def assert_books_balance(stock: Stock, *, units: int, reserved: int) -> None:
    """The row, the ledger and the holds agree."""
    stock.refresh_from_db()
    assert (stock.available, stock.reserved, stock.sold) == (units - reserved, reserved, 0)
    accounts: Counter[str] = Counter()
    for entry in LedgerEntry.objects.filter(stock=stock):
        accounts[entry.debit] -= entry.units
        accounts[entry.credit] += entry.units
    assert (accounts["available"], accounts["reserved"]) == (stock.available, stock.reserved)
    assert stock.version == LedgerEntry.objects.filter(stock=stock).count()
    assert Hold.objects.filter(stock=stock, state="reserved").count() == reserved
