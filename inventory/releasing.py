"""Settlement: what becomes of a hold when its order is paid, or can never be. Once for each cause."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from inventory import rebuild, rows, views
from inventory.events import UnitsReleased
from inventory.locks import lock_stocks
from inventory.models import GateSync, Hold, LedgerEntry, Settled, Stock
from orders.events import OrderChanged, OrderEvent
from seckill.envelope import Envelope, Origin
from seckill.streams.outbox import Event, publish
from seckill.topics import INVENTORY_DECISIONS

RELEASING = {
    OrderEvent.EXPIRED: "expired",
    OrderEvent.CANCELLED: "cancelled",
    OrderEvent.NOT_PLACED: "not placed",
}


def settle(envelope: Envelope, changed: OrderChanged) -> None:
    """Inside the transaction of the consume loop."""
    _, fresh = Settled.objects.get_or_create(
        event_id=envelope.event_id,
        defaults={"kind": changed.event.value, "request_id": changed.request_id, "posted": False},
    )
    if not fresh:
        return
    if changed.event is OrderEvent.PAID:
        posted = _post(envelope.event_id, changed.request_id, "sell", "reserved", "sold") is not None
    elif changed.event in RELEASING:
        posted = _give_back(envelope, changed, "release", "reserved", RELEASING[changed.event])
    elif changed.event is OrderEvent.REFUNDED and changed.returned_units:
        # Where OrderPaid is under examination, the refund is the proof that it was paid: replayed, it finds that done.
        _post(envelope.event_id, changed.request_id, "sell", "reserved", "sold")
        posted = _give_back(envelope, changed, "return", "sold", "refunded")
    else:
        return
    if posted:
        Settled.objects.filter(event_id=envelope.event_id).update(posted=True)


def _give_back(envelope: Envelope, changed: OrderChanged, kind: str, account: str, reason: str) -> bool:
    moved = _post(envelope.event_id, changed.request_id, kind, account, "available")
    if moved is None:
        return False
    stock, hold = moved
    GateSync.objects.create(stock=stock, request_id=hold.request_id, action="release")
    released = UnitsReleased(
        hold.request_id, hold.user_id, stock.sale_id, stock.sku, hold.quantity, reason, stock.version
    )
    origin = Origin(*hold.origin)
    publish([Event(INVENTORY_DECISIONS, hold.user_id, released.envelope(envelope.event_id, origin))])
    transaction.on_commit(lambda: rebuild.sync_after_commit(stock.id), robust=True)
    return True


_AFTER = {"sell": "sold", "release": "released", "return": "released"}


def _post(cause: UUID, request_id: UUID, kind: str, debit: str, credit: str) -> tuple[Stock, Hold] | None:
    """Move a hold's units from one account to another, if they are there: stock row, hold and ledger together."""
    found = Hold.objects.filter(request_id=request_id, state=debit).values_list("stock_id", flat=True).first()
    if found is None:
        return None
    stock = lock_stocks([found])[found]
    changed = Hold.objects.filter(request_id=request_id, state=debit).update(state=_AFTER[kind])
    if changed != 1:
        return None  # somebody was faster while we waited for the lock
    hold = Hold.objects.get(request_id=request_id)
    for account, change in ((debit, -hold.quantity), (credit, hold.quantity)):
        setattr(stock, account, getattr(stock, account) + change)
    before, stock.version = stock.version, stock.version + 1
    moved = Stock.objects.filter(id=stock.id, version=before).update(
        available=stock.available, reserved=stock.reserved, sold=stock.sold, version=stock.version
    )
    if moved != 1:
        raise rows.Overtaken(f"stock {stock.id} moved on from version {before}")
    LedgerEntry.objects.create(
        stock=stock, version=stock.version, debit=debit, credit=credit, units=hold.quantity, kind=kind, cause=cause,
        request_id=request_id,
    )  # fmt: skip
    transaction.on_commit(lambda: views.show(stock.sale_id), robust=True)
    return stock, hold
