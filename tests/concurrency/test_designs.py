"""The designs that we compare with work as described: those with a lock do not oversell, the one without does."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from unittest import mock
from uuid import uuid4

import pytest
from django.conf import settings
from psycopg.errors import UniqueViolation

from gateway.events import PurchaseRequested
from inventory import sale_commands
from inventory.models import DecidedRequest, Hold, LedgerEntry, Stock
from loadtest.designs import purchase_rows, variants
from tests.services import Services, together

UNITS, BUYERS = 10, 40
FAR_MS = 10**15


@pytest.fixture
def url(services: Services) -> Iterator[str]:
    found = f"postgresql://seckill@127.0.0.1:{services.postgres_port}/{settings.DATABASES['default']['NAME']}"
    yield found
    purchase_rows.pool(found).close()
    purchase_rows._pool.cache_clear()
    variants._gate.cache_clear()


@pytest.fixture
def stock() -> Stock:
    return sale_commands.create_sale("Gong", "phone", UNITS, 100, 1, 0, FAR_MS)


def request(stock: Stock, user: str) -> PurchaseRequested:
    return PurchaseRequested(uuid4(), user, stock.sale_id, stock.sku, 1, 0, FAR_MS)


def decide(name: str, url: str, redis_url: str, wanted: PurchaseRequested) -> None:
    decide = variants.DESIGNS[name].decide
    assert decide is not None
    with purchase_rows.pool(url).connection() as db:
        decide(db, redis_url, wanted)


def all_well(results: list[BaseException | None]) -> None:
    assert set(results) == {None}


@pytest.mark.parametrize("name", ["row-lock", "redis-gate"])
def test_without_faults_the_design_sells_exactly_the_stock(
    name: str, url: str, services: Services, stock: Stock
) -> None:
    wanted = [request(stock, f"user-{number}") for number in range(BUYERS)]
    all_well(together([partial(decide, name, url, services.redis_url, each) for each in wanted]))
    assert Counter(DecidedRequest.objects.values_list("decision", flat=True)) == {
        "RESERVED": UNITS, "SOLD_OUT": BUYERS - UNITS,
    }  # fmt: skip
    assert LedgerEntry.objects.filter(kind="reserve").count() == Hold.objects.count() == UNITS
    stock.refresh_from_db()
    assert (stock.available, stock.reserved, stock.version) == (0, UNITS, 1 + UNITS)


@pytest.mark.parametrize("name", ["row-lock", "redis-gate"])
def test_the_same_request_twice_at_once_is_decided_once(
    name: str, url: str, services: Services, stock: Stock
) -> None:  # fmt: skip
    wanted = request(stock, "impatient")
    all_well(together([partial(decide, name, url, services.redis_url, wanted)] * 4))
    assert DecidedRequest.objects.count() == Hold.objects.count() == 1


def test_reading_then_writing_grants_a_unit_twice_and_only_a_constraint_stops_it(
    url: str, services: Services, stock: Stock
) -> None:
    """Both read before either writes, so the second ledger entry has a version that exists already."""
    both_have_read = threading.Barrier(2)
    caught: list[UniqueViolation] = []

    def one(user: str) -> None:
        try:
            decide("naive", url, services.redis_url, request(stock, user))
        except UniqueViolation as violation:
            caught.append(violation)

    with mock.patch.object(variants, "pause", lambda: both_have_read.wait(30)):
        all_well(together([partial(one, "anna"), partial(one, "bert")]))
    assert len(caught) == 1
    assert "inventory_ledger_version" in str(caught[0])


def test_every_constraint_that_the_unsafe_run_drops_exists(url: str, stock: Stock) -> None:
    """A renamed constraint would not be dropped, and the unsafe run would prove nothing."""
    wanted = {name for names in purchase_rows.CONSTRAINTS.values() for name in names}
    with purchase_rows.pool(url).connection() as db:
        db.execute("BEGIN")
        assert set(purchase_rows.drop_constraints_on(db)) == wanted
        db.execute("ROLLBACK")
