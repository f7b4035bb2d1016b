"""What an operator can do to a sale. Each command is one transaction with its audit entry, and each change of stock is
a ledger entry."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple
from uuid import uuid4

from django.db import IntegrityError, transaction
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from inventory import gate_rebuild, sale_view
from inventory.locks import lock_stocks
from inventory.models import LedgerEntry, Sale, Stock
from inventory.states import Account, EntryKind, SaleState
from seckill.audit.trail import audited
from seckill.messaging import database_clock

VERBS = {SaleState.OPEN: "open", SaleState.PAUSED: "pause", SaleState.CLOSED: "close"}
"""The command that leads to a state."""
UNITS_MAX, AMOUNT_MAX, CLOSES_AT_MS_MAX = 10**9, 10**15, 10**16
"""Larger numbers are typing errors, and the price of a purchase would not fit its column."""
TEXT_CHARACTERS_MAX = 100


class SaleCommandRejected(Exception):
    """The message says why, in the language in which it is shown."""


class Article(NamedTuple):
    """An article of a new sale. `cap`: the units that one purchase may take at most."""

    sku: str
    units: int
    unit_price: int
    cap: int


def create_sale(
    name: str, sku: str, units: int, unit_price: int, cap: int, opens_at_ms: int, closes_at_ms: int
) -> Stock:
    """A sale of one article."""
    return create_sale_of(name, [Article(sku, units, unit_price, cap)], opens_at_ms, closes_at_ms)[0]


def create_sale_of(name: str, articles: Sequence[Article], opens_at_ms: int, closes_at_ms: int) -> list[Stock]:
    """Each article has its own audit entry, because each has its own stock row. All or none of them is created."""
    with ExitStack() as trail:
        for sku, units, unit_price, cap in articles:
            trail.enter_context(
                audited("sale create", f"{name} {sku}", units=units, unit_price=unit_price, cap=cap,
                        opens_at_ms=opens_at_ms, closes_at_ms=closes_at_ms)
            )  # fmt: skip
        _check_sale(name, articles, opens_at_ms, closes_at_ms)
        sale = Sale.objects.create(name=name, opens_at_ms=opens_at_ms, closes_at_ms=closes_at_ms)
        stocks = [_insert_stock(sale, article) for article in articles]
    for stock in stocks:
        gate_rebuild.rebuild_after_commit(stock.id, stock.gate_epoch)
    sale_view.publish_view(sale.id)
    return stocks


def _check_sale(name: str, articles: Sequence[Article], opens_at_ms: int, closes_at_ms: int) -> None:
    for article in articles:
        _check_article(article)
    if not articles:
        raise SaleCommandRejected(_("a sale needs at least one article"))
    if len({article.sku for article in articles}) < len(articles):
        raise SaleCommandRejected(_("each article of a sale needs a name of its own"))
    if closes_at_ms <= opens_at_ms:
        raise SaleCommandRejected(_("a sale must end after it opens"))
    if closes_at_ms > CLOSES_AT_MS_MAX:
        text = _("a sale must end before {latest} ms, got {given}")
        raise SaleCommandRejected(format_lazy(text, latest=CLOSES_AT_MS_MAX, given=closes_at_ms))
    for given in (name, *(article.sku for article in articles)):
        if not 0 < len(given) <= TEXT_CHARACTERS_MAX or not given.isprintable():
            text = _("name and sku must have 1 to {most} printable characters, got {given}")
            raise SaleCommandRejected(format_lazy(text, most=TEXT_CHARACTERS_MAX, given=f"{given!r:.120}"))


def _check_article(article: Article) -> None:
    _sku, units, unit_price, cap = article
    if units <= 0 or cap <= 0 or unit_price < 0:
        raise SaleCommandRejected(_("units and cap must be at least 1, and the price must not be negative"))
    if max(units, cap) > UNITS_MAX or unit_price * cap > AMOUNT_MAX:
        text = _("at most {units} units, and at most {amount} coins for one purchase")
        raise SaleCommandRejected(format_lazy(text, units=UNITS_MAX, amount=AMOUNT_MAX))


def _insert_stock(sale: Sale, article: Article) -> Stock:
    sku, units, unit_price, cap = article
    stock = Stock.objects.create(
        sale=sale, sku=sku, unit_price=unit_price, cap=cap, declared=units, available=units, version=1
    )
    _insert_entry(stock, Account.SUPPLY, Account.AVAILABLE, units, EntryKind.DECLARE)
    return stock


def create_sale_in(
    name: str, sku: str, units: int, unit_price: int, cap: int, *, opens_in_s: float, lasts_s: float
) -> Stock:
    """As `create_sale`, with a window relative to now by the database's clock, not by the operator's machine."""
    opens_at_ms = database_clock.now_ms() + int(opens_in_s * 1000)
    return create_sale(name, sku, units, unit_price, cap, opens_at_ms, opens_at_ms + int(lasts_s * 1000))


def set_sale_state(sale_id: int, state: str) -> None:
    """A closed sale stays closed."""
    state = SaleState(state)
    with audited(f"sale {VERBS[state]}", f"sale {sale_id}"):
        closed_at_ms = database_clock.now_ms() if state is SaleState.CLOSED else None
        changed = Sale.objects.filter(id=sale_id).exclude(state=SaleState.CLOSED)
        if changed.update(state=state, closed_at_ms=closed_at_ms) != 1:
            raise SaleCommandRejected(format_lazy(_("sale {sale} does not exist or is already closed"), sale=sale_id))
    sale_view.publish_view(sale_id)


def adjust_stock(sale_id: int, sku: str, units: int) -> Stock:
    """Add units to the sale, or remove available ones if `units` is negative."""
    with audited("sale adjust", f"sale {sale_id} {sku}", units=units):
        stock = _adjust_locked(sale_id, sku, units)
    gate_rebuild.rebuild_after_commit(stock.id, stock.gate_epoch)
    sale_view.publish_view(sale_id)
    return stock


def _adjust_locked(sale_id: int, sku: str, units: int) -> Stock:
    stock_id = Stock.objects.filter(sale_id=sale_id, sku=sku).values_list("id", flat=True).first()
    if stock_id is None:
        raise SaleCommandRejected(format_lazy(_("sale {sale} has no article {sku}"), sale=sale_id, sku=repr(sku)))
    if not 0 < abs(units) <= UNITS_MAX:
        text = _("units must not be 0 and at most {most}, got {given}")
        raise SaleCommandRejected(format_lazy(text, most=UNITS_MAX, given=units))
    stock = lock_stocks([stock_id])[stock_id]
    accounts = (Account.SUPPLY, Account.AVAILABLE) if units > 0 else (Account.AVAILABLE, Account.SUPPLY)
    stock.move_units(*accounts, abs(units))
    try:
        with transaction.atomic():
            Stock.objects.filter(id=stock.id).update(available=stock.available, version=stock.version)
    except IntegrityError as error:
        text = _("cannot remove {units} units: only {available} are available")
        raise SaleCommandRejected(format_lazy(text, units=-units, available=stock.available - units)) from error
    _insert_entry(stock, *accounts, abs(units), EntryKind.ADJUST)
    return stock


def _insert_entry(stock: Stock, debit: Account, credit: Account, units: int, kind: EntryKind) -> None:
    LedgerEntry.objects.create(
        stock=stock, version=stock.version, debit=debit, credit=credit, units=units, kind=kind, cause=uuid4()
    )
