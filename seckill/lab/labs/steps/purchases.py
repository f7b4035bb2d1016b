"""What the labs about stock share: a sale, requests of its buyers, and batches as the consume loop forms them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

from django.db import connection, transaction
from django.db.models import Sum

from gateway.events import PurchaseRequested
from inventory import batch_sql, reservation, sale_commands
from inventory.models import Hold, Stock
from inventory.states import ACTIVE_HOLDS
from seckill.messaging.records import Batch, ReceivedRecord
from seckill.messaging.topics import PURCHASE_REQUESTS

FAR_MS = 10**15
RETRIES_MAX = 20
JOIN_SECONDS_MAX = 60.0


def create_stock(units: int) -> Stock:
    stock = sale_commands.create_sale("Gong", "phone", units, 9900, 1, 0, FAR_MS)
    stock.refresh_from_db()
    return stock


def request(stock: Stock, user: str, *, deadline_ms: int = FAR_MS, request_id: UUID | None = None) -> PurchaseRequested:
    return PurchaseRequested(request_id or uuid4(), user, stock.sale_id, stock.sku, 1, 0, deadline_ms)


def batch_of(requests: Sequence[PurchaseRequested], partition: int = 0, start: int = 0) -> Batch:
    topic = PURCHASE_REQUESTS.name
    records = [
        ReceivedRecord(topic, partition, start + at, 0, each.user_id, each.envelope())
        for at, each in enumerate(requests)
    ]
    return Batch("lab", "lab", topic, partition, records)


def decide(batch: Batch) -> None:
    """As the consume loop does it: one transaction, repeated if another one was faster."""
    for _ in range(RETRIES_MAX):
        try:
            with transaction.atomic():
                reservation.decide_batch(batch)
            return
        except batch_sql.ConcurrentUpdate:
            continue
    raise RuntimeError("another transaction was always faster")


def held_units(stock: Stock) -> int:
    held = Hold.objects.filter(stock=stock, state__in=ACTIVE_HOLDS).aggregate(units=Sum("quantity"))
    return int(held["units"] or 0)


def drop_constraints(*constraints: tuple[str, str]) -> None:
    """(table, name): what would stop a broken variant. Its database is a copy that is deleted afterwards."""
    with connection.cursor() as cursor:
        for table, name in constraints:
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")


@contextmanager
def replaced(module: Any, name: str, substitute: object) -> Iterator[None]:
    """Compose a variant: the module's function is another one inside the block."""
    real = getattr(module, name)
    setattr(module, name, substitute)
    try:
        yield
    finally:
        setattr(module, name, real)


def in_threads(works: Sequence[Callable[[], None]]) -> None:
    """Run all at the same time, each with a database connection of its own. The first failure is raised."""
    failures: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            connection.ensure_connection()
            ready.wait(JOIN_SECONDS_MAX)
            work()
        except BaseException as failure:
            failures.append(failure)
        finally:
            connection.close()

    ready = threading.Barrier(len(works))
    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_SECONDS_MAX)
    if failures:
        raise failures[0]
    if any(thread.is_alive() for thread in threads):
        raise TimeoutError("a thread of the lab did not end")
