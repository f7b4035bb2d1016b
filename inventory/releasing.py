"""Settlement: what becomes of a hold when its order is paid, or can never be. Once for each cause.

A batch takes its locks in one order: the rows of the inbox by event, then every stock row it needs, by id, at once
(inventory/locks.py). Whatever it changes is computed under these locks and written with one statement a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction

from inventory import rebuild, rows, views
from inventory.events import UnitsReleased
from inventory.locks import lock_stocks
from inventory.models import Hold, Stock
from orders.events import OrderChanged, OrderEvent
from seckill.envelope import Envelope, Origin
from seckill.streams.outbox import Event, publish
from seckill.topics import INVENTORY_DECISIONS

RELEASING = {
    OrderEvent.EXPIRED: "expired",
    OrderEvent.CANCELLED: "cancelled",
    OrderEvent.NOT_PLACED: "not placed",
}
_AFTER = {"sell": "sold", "release": "released", "return": "released"}

Settling = tuple[Envelope, OrderChanged]


@dataclass(slots=True)
class _Books:
    """Stock rows and holds as the transaction has them locked, and the changes to be written."""

    stocks: dict[int, Stock]
    holds: dict[UUID, Hold]
    versions: dict[int, int] = field(default_factory=dict)  # of the stock rows that change, as they were locked
    moved: dict[UUID, str] = field(default_factory=dict)  # holds that change, and the state they had
    entries: list[rows.Move] = field(default_factory=list)
    released: list[tuple[int, UUID]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def post(self, cause: UUID, request_id: UUID, kind: str, debit: str, credit: str) -> Hold | None:
        """Move the hold's units from one account to another; None if they are not in the first one."""
        hold = self.holds.get(request_id)
        if hold is None or hold.state != debit:
            return None
        stock = self.stocks[hold.stock_id]
        self.versions.setdefault(stock.id, stock.version)
        self.moved.setdefault(request_id, hold.state)
        hold.state = _AFTER[kind]
        for account, change in ((debit, -hold.quantity), (credit, hold.quantity)):
            setattr(stock, account, getattr(stock, account) + change)
        stock.version += 1
        self.entries.append(rows.Move(stock.id, stock.version, debit, credit, hold.quantity, kind, cause, request_id))
        return hold

    def give_back(self, envelope: Envelope, request_id: UUID, kind: str, account: str, reason: str) -> bool:
        hold = self.post(envelope.event_id, request_id, kind, account, "available")
        if hold is None:
            return False
        stock = self.stocks[hold.stock_id]
        self.released.append((stock.id, request_id))
        told = UnitsReleased(request_id, hold.user_id, stock.sale_id, stock.sku, hold.quantity, reason, stock.version)
        self.events.append(
            Event(INVENTORY_DECISIONS, hold.user_id, told.envelope(envelope.event_id, Origin(*hold.origin)))
        )
        return True

    def write(self) -> None:
        rows.move_stocks([(self.stocks[number], version) for number, version in self.versions.items()])
        rows.move_holds(
            [(request_id, before, self.holds[request_id].state) for request_id, before in self.moved.items()]
        )
        rows.insert_moves(self.entries)
        rows.insert_gate_sync(self.released)
        publish(self.events)


def settle(envelope: Envelope, changed: OrderChanged) -> None:
    """One event; inside a transaction."""
    settle_all([(envelope, changed)])


def settle_all(batch: Sequence[Settling]) -> None:
    """Inside the transaction of the consume loop. An event that was settled before changes nothing."""
    fresh = rows.insert_settled(
        [(envelope.event_id, changed.event.value, changed.request_id) for envelope, changed in batch]
    )
    moving = list(_first_of_each(each for each in batch if each[0].event_id in fresh and _may_move(each[1])))
    if not moving:
        return
    wanted = {changed.request_id for _, changed in moving}
    stocks = lock_stocks(Hold.objects.filter(request_id__in=wanted).values_list("stock_id", flat=True))
    books = _Books(stocks, {hold.request_id: hold for hold in Hold.objects.filter(request_id__in=wanted)})
    rows.mark_posted([envelope.event_id for envelope, changed in moving if _settle(books, envelope, changed)])
    books.write()
    for sale_id in {books.stocks[number].sale_id for number in books.versions}:
        transaction.on_commit(lambda sale_id=sale_id: views.show(sale_id), robust=True)  # type: ignore[misc]
    for stock_id in {stock_id for stock_id, _ in books.released}:
        transaction.on_commit(lambda stock_id=stock_id: rebuild.sync_after_commit(stock_id), robust=True)  # type: ignore[misc]


def _settle(books: _Books, envelope: Envelope, changed: OrderChanged) -> bool:
    """Were units moved?"""
    if changed.event in RELEASING:
        return books.give_back(envelope, changed.request_id, "release", "reserved", RELEASING[changed.event])
    # Where OrderPaid is under examination, the refund is the proof that it was paid: replayed, it finds that done.
    sold = books.post(envelope.event_id, changed.request_id, "sell", "reserved", "sold") is not None
    if changed.event is OrderEvent.REFUNDED:
        return books.give_back(envelope, changed.request_id, "return", "sold", "refunded")
    return sold


def _may_move(changed: OrderChanged) -> bool:
    if changed.event is OrderEvent.REFUNDED:
        return changed.returned_units > 0
    return changed.event is OrderEvent.PAID or changed.event in RELEASING


def _first_of_each(events: Iterator[Settling]) -> Iterator[Settling]:
    """The relay may have sent an event twice, and both may be in one batch."""
    seen: set[UUID] = set()
    for envelope, changed in events:
        if envelope.event_id not in seen:
            seen.add(envelope.event_id)
            yield envelope, changed
