"""Settlement: post order events to the stock. A paid order sells its hold's units, an ended order releases them.

A batch takes its locks in one order: inbox rows by event id, then all stock rows by id (inventory/locks.py). All
changes are computed in memory under these locks and written with one statement per table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction

from inventory import batch_sql, gate_rebuild, sale_view
from inventory.events import UnitsReleased
from inventory.locks import lock_stocks
from inventory.models import Hold, Stock
from inventory.states import Account, EntryKind, HoldState
from orders.events import OrderChanged, OrderEvent
from seckill.messaging.envelope import Envelope
from seckill.messaging.outbox import Event, publish
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.topics import INVENTORY_DECISIONS

RELEASE_REASONS = {
    OrderEvent.EXPIRED: "expired",
    OrderEvent.CANCELLED: "cancelled",
    OrderEvent.NOT_PLACED: "not placed",
}
_ACCOUNTS_OF_HOLDS = {HoldState.RESERVED: Account.RESERVED, HoldState.SOLD: Account.SOLD}

SettlementEvent = tuple[Envelope, OrderChanged]


@dataclass(frozen=True, slots=True)
class Posting:
    """How an event moves the units of a hold."""

    kind: EntryKind
    before: HoldState
    after: HoldState
    credit: Account


SELL = Posting(EntryKind.SELL, HoldState.RESERVED, HoldState.SOLD, Account.SOLD)
RELEASE = Posting(EntryKind.RELEASE, HoldState.RESERVED, HoldState.RELEASED, Account.AVAILABLE)
RETURN = Posting(EntryKind.RETURN, HoldState.SOLD, HoldState.RELEASED, Account.AVAILABLE)


@dataclass(slots=True)
class _LockedBooks:
    """Locked stock rows, their holds, and the changes that `write` stores."""

    stocks: dict[int, Stock]
    holds: dict[UUID, Hold]
    locked_versions: dict[int, int] = field(default_factory=dict)  # of the stock rows that change
    previous_states: dict[UUID, HoldState] = field(default_factory=dict)  # of the holds that change
    entries: list[batch_sql.LedgerMove] = field(default_factory=list)
    released: list[tuple[int, UUID]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def post(self, cause: UUID, request_id: UUID, posting: Posting) -> Hold | None:
        """Move the hold's units. None if the hold does not exist or is in another state."""
        hold = self.holds.get(request_id)
        if hold is None or hold.state != posting.before:
            return None
        stock = self.stocks[hold.stock_id]
        debit = _ACCOUNTS_OF_HOLDS[posting.before]
        self.locked_versions.setdefault(stock.id, stock.version)
        self.previous_states.setdefault(request_id, posting.before)
        hold.state = posting.after
        stock.move_units(debit, posting.credit, hold.quantity)
        self.entries.append(
            batch_sql.LedgerMove(
                stock.id, stock.version, debit, posting.credit, hold.quantity, posting.kind, cause, request_id
            )
        )
        return hold

    def give_back(self, envelope: Envelope, request_id: UUID, posting: Posting, reason: str) -> bool:
        """Post, and publish that the units are available again. False if nothing was moved."""
        hold = self.post(envelope.event_id, request_id, posting)
        if hold is None:
            return False
        stock = self.stocks[hold.stock_id]
        self.released.append((stock.id, request_id))
        released = UnitsReleased(
            request_id, hold.user_id, stock.sale_id, stock.sku, hold.quantity, reason, stock.version
        )
        origin = RecordPosition(*hold.origin)
        self.events.append(Event(INVENTORY_DECISIONS, hold.user_id, released.envelope(envelope.event_id, origin)))
        return True

    def write(self) -> None:
        batch_sql.update_stocks([(self.stocks[number], version) for number, version in self.locked_versions.items()])
        batch_sql.update_hold_states(
            [
                (request_id, before, HoldState(self.holds[request_id].state))
                for request_id, before in self.previous_states.items()
            ]
        )
        batch_sql.insert_ledger_moves(self.entries)
        batch_sql.insert_gate_releases(self.released)
        publish(self.events)


def settle_event(envelope: Envelope, changed: OrderChanged) -> None:
    """One event, inside a transaction."""
    settle_events([(envelope, changed)])


def settle_events(batch: Sequence[SettlementEvent]) -> None:
    """Inside the transaction of the consume loop. Events that were settled before change nothing."""
    fresh = batch_sql.insert_settled_events(
        [(envelope.event_id, changed.event.value, changed.request_id) for envelope, changed in batch]
    )
    relevant = (each for each in batch if each[0].event_id in fresh and _moves_units(each[1]))
    events = list(_without_repeats(relevant))
    if not events:
        return
    requests = {changed.request_id for _, changed in events}
    stocks = lock_stocks(Hold.objects.filter(request_id__in=requests).values_list("stock_id", flat=True))
    books = _LockedBooks(stocks, {hold.request_id: hold for hold in Hold.objects.filter(request_id__in=requests)})
    batch_sql.mark_events_posted(
        [envelope.event_id for envelope, changed in events if _post_event(books, envelope, changed)]
    )
    books.write()
    for sale_id in {books.stocks[number].sale_id for number in books.locked_versions}:
        transaction.on_commit(lambda sale_id=sale_id: sale_view.publish_view(sale_id), robust=True)  # type: ignore[misc]
    for stock_id in {stock_id for stock_id, _ in books.released}:
        transaction.on_commit(lambda stock_id=stock_id: gate_rebuild.send_releases_after_commit(stock_id), robust=True)  # type: ignore[misc]


def _post_event(books: _LockedBooks, envelope: Envelope, changed: OrderChanged) -> bool:
    """Whether units were moved."""
    if changed.event in RELEASE_REASONS:
        return books.give_back(envelope, changed.request_id, RELEASE, RELEASE_REASONS[changed.event])
    # A refund proves that the order was paid, so sell first: OrderPaid may still be a dead letter. When it is replayed
    # later, its units are already sold and it moves nothing.
    is_sold = books.post(envelope.event_id, changed.request_id, SELL) is not None
    if changed.event is OrderEvent.REFUNDED:
        return books.give_back(envelope, changed.request_id, RETURN, "refunded")
    return is_sold


def _moves_units(changed: OrderChanged) -> bool:
    if changed.event is OrderEvent.REFUNDED:
        return changed.returned_units > 0
    return changed.event is OrderEvent.PAID or changed.event in RELEASE_REASONS


def _without_repeats(events: Iterator[SettlementEvent]) -> Iterator[SettlementEvent]:
    """The relay may publish an event twice, and both copies may be in one batch."""
    seen: set[UUID] = set()
    for envelope, changed in events:
        if envelope.event_id not in seen:
            seen.add(envelope.event_id)
            yield envelope, changed
