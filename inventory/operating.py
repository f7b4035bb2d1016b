"""What an operator may do to a sale. Each is one transaction with its row in the audit trail, and stock moves only as a
ledger entry."""

from __future__ import annotations

import time
from uuid import uuid4

from django.db import IntegrityError, transaction

from inventory import rebuild, views
from inventory.locks import lock_stocks
from inventory.models import LedgerEntry, Sale, Stock
from seckill.audit.trail import acting

VERBS = {"open": "open", "paused": "pause", "closed": "close"}
"""What leads to a state."""
MOST_UNITS, MOST_MONEY, LAST_MS = 10**9, 10**15, 10**16
"""Beyond these a number is a mistake; what a purchase costs could not be kept either."""
MOST_TEXT = 100


class Refused(Exception):
    """It makes no sense; the text says why."""


def create(name: str, sku: str, units: int, unit_price: int, cap: int, opens_at_ms: int, closes_at_ms: int) -> Stock:
    with acting("sale create", f"{name} {sku}", units=units, unit_price=unit_price, cap=cap, opens_at_ms=opens_at_ms,
                closes_at_ms=closes_at_ms):  # fmt: skip
        if units <= 0 or cap <= 0 or unit_price < 0 or closes_at_ms <= opens_at_ms:
            raise Refused("a sale has units, a cap of at least one, a price and a window that ends after it begins")
        if max(units, cap) > MOST_UNITS or unit_price * cap > MOST_MONEY or closes_at_ms > LAST_MS:
            raise Refused("so many units, so much money or so late an end is a mistake")
        for text in (name, sku):
            if not 0 < len(text) <= MOST_TEXT or not text.isprintable():
                raise Refused(f"a name and a sku have 1 to {MOST_TEXT} printable characters")
        sale = Sale.objects.create(name=name, opens_at_ms=opens_at_ms, closes_at_ms=closes_at_ms)
        stock = Stock.objects.create(
            sale=sale, sku=sku, unit_price=unit_price, cap=cap, declared=units, available=units, version=1
        )
        LedgerEntry.objects.create(
            stock=stock, version=1, debit="supply", credit="available", units=units, kind="declare", cause=uuid4()
        )
    rebuild.after_commit(stock.id, stock.gate_epoch)
    views.show(stock.sale_id)
    return stock


def set_state(sale_id: int, state: str) -> None:
    with acting(f"sale {VERBS[state]}", f"sale {sale_id}"):
        closed_at_ms = int(time.time() * 1000) if state == "closed" else None
        changing = Sale.objects.filter(id=sale_id).exclude(state="closed")
        if changing.update(state=state, closed_at_ms=closed_at_ms) != 1:
            raise Refused(f"sale {sale_id} does not exist or has been closed")
    views.show(sale_id)


def adjust(sale_id: int, sku: str, units: int) -> Stock:
    """More units, or fewer of those that are available."""
    with acting("sale adjust", f"sale {sale_id} {sku}", units=units):
        stock = _adjust(sale_id, sku, units)
    rebuild.after_commit(stock.id, stock.gate_epoch)
    views.show(sale_id)
    return stock


def _adjust(sale_id: int, sku: str, units: int) -> Stock:
    found = Stock.objects.filter(sale_id=sale_id, sku=sku).values_list("id", flat=True).first()
    if found is None or not 0 < abs(units) <= MOST_UNITS:
        raise Refused(f"sale {sale_id} has no {sku}, or that is no change")
    stock = lock_stocks([found])[found]
    debit, credit = ("supply", "available") if units > 0 else ("available", "supply")
    stock.available, stock.version = stock.available + units, stock.version + 1
    try:
        with transaction.atomic():
            Stock.objects.filter(id=stock.id).update(available=stock.available, version=stock.version)
    except IntegrityError as error:
        raise Refused("fewer units are available than are to be taken away") from error
    LedgerEntry.objects.create(
        stock=stock, version=stock.version, debit=debit, credit=credit, units=abs(units), kind="adjust", cause=uuid4()
    )
    return stock
