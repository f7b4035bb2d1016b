"""The projection of events to what a buyer sees of a purchase (seckill/web/purchase_states.py ranks the states)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from inventory.events import PurchaseDecided, UnitsReleased
from orders.events import OrderChanged, OrderEvent
from seckill.web.purchase_states import REFUSED, RETURNED, PurchaseState

STATE_AFTER: dict[OrderEvent, PurchaseState] = {
    OrderEvent.PLACED: PurchaseState.AWAITING_PAYMENT,
    OrderEvent.PAID: PurchaseState.PAID,
    OrderEvent.EXPIRED: PurchaseState.EXPIRED,
    OrderEvent.CANCELLED: PurchaseState.CANCELLED,
    OrderEvent.REFUNDED: PurchaseState.REFUNDED,
    OrderEvent.NOT_PLACED: PurchaseState.NOT_PLACED,
}

Event = PurchaseDecided | UnitsReleased | OrderChanged


class OutcomeUpdate(NamedTuple):
    """What the events of a request mean for its buyer. `is_released`: its units are back in stock."""

    request_id: UUID
    user_id: str
    sale_id: int
    state: PurchaseState
    order_id: UUID | None = None
    pay_before_ms: int | None = None
    is_released: bool = False


class PurchaseOutcome(NamedTuple):
    """One row of the projection: everything a buyer is shown of a decided request."""

    request_id: UUID
    user_id: str
    sale_id: int
    state: PurchaseState
    order_id: UUID | None
    pay_before_ms: int | None
    may_buy_again: bool

    @property
    def version(self) -> int:
        """Grows with every change of the row."""
        return 2 * self.state.rank + self.may_buy_again

    @property
    def is_final(self) -> bool:
        """No later event can change it."""
        return self.state in REFUSED or (self.state in RETURNED and self.may_buy_again)


_COLUMNS = "request_id, user_id, sale_id, state, order_id, pay_before_ms, may_buy_again"

# One statement that locks its rows in the order of their request ids. Batches of the two topics that contain the same
# requests therefore wait for each other and cannot deadlock.
_UPSERT = f"""
INSERT INTO gateway_outcome AS mine
    (request_id, user_id, sale_id, state, rank, order_id, pay_before_ms, may_buy_again, sku, quantity, place,
     updated_at)
SELECT *, now()
FROM unnest(%s::uuid[], %s::text[], %s::bigint[], %s::text[], %s::int[], %s::uuid[], %s::bigint[], %s::boolean[],
            %s::text[], %s::int[], %s::text[])
     AS row (request_id, user_id, sale_id, state, rank, order_id, pay_before_ms, may_buy_again, sku, quantity, place)
ORDER BY request_id
ON CONFLICT (request_id) DO UPDATE
SET state = CASE WHEN mine.rank < EXCLUDED.rank THEN EXCLUDED.state ELSE mine.state END,
    rank = greatest(mine.rank, EXCLUDED.rank),
    order_id = CASE WHEN mine.rank < EXCLUDED.rank THEN COALESCE(EXCLUDED.order_id, mine.order_id)
                    ELSE mine.order_id END,
    pay_before_ms = CASE WHEN mine.rank < EXCLUDED.rank THEN COALESCE(EXCLUDED.pay_before_ms, mine.pay_before_ms)
                         ELSE mine.pay_before_ms END,
    may_buy_again = mine.may_buy_again OR EXCLUDED.may_buy_again,
    sku = COALESCE(mine.sku, EXCLUDED.sku), quantity = COALESCE(mine.quantity, EXCLUDED.quantity),
    place = COALESCE(mine.place, EXCLUDED.place),
    updated_at = now()
WHERE mine.rank < EXCLUDED.rank OR (EXCLUDED.may_buy_again AND NOT mine.may_buy_again)
RETURNING {_COLUMNS}
"""

_SELECT = f"SELECT {_COLUMNS} FROM gateway_outcome WHERE request_id = ANY(%s::uuid[])"


def outcome_update(event: Event) -> OutcomeUpdate | None:
    """What the event means to the buyer; None if it changes nothing for the buyer."""
    match event:
        case PurchaseDecided():
            state = PurchaseState(event.decision.value)
            return OutcomeUpdate(event.request_id, event.user_id, event.sale_id, state)
        case OrderChanged() if event.event in STATE_AFTER:
            return OutcomeUpdate(
                event.request_id, event.user_id, event.sale_id, STATE_AFTER[event.event], event.order_id,
                event.pay_before_ms,
            )  # fmt: skip
        case UnitsReleased():  # implies a reservation, even if the decision itself could not be projected
            return OutcomeUpdate(
                event.request_id, event.user_id, event.sale_id, PurchaseState.RESERVED, is_released=True
            )
        case _:
            return None


def project_events(events: Sequence[Event], positions: Mapping[UUID, str] | None = None) -> list[PurchaseOutcome]:
    """Update the projection and return the rows that changed. Runs inside the consume loop's transaction.

    `positions`: where each request stands in its topic, as far as the events say.
    """
    known = positions or {}
    bodies = {event.request_id: (event.sku, event.quantity, known.get(event.request_id)) for event in events}
    updates = _merge_per_request(filter(None, map(outcome_update, events)))
    if not updates:
        return []
    rows = [
        (
            each.request_id, each.user_id, each.sale_id, each.state.value, each.state.rank, each.order_id,
            each.pay_before_ms, each.is_released, *bodies[each.request_id],
        )
        for each in updates
    ]  # fmt: skip
    return _fetch_outcomes(_UPSERT, [list(column) for column in zip(*rows, strict=True)])


def find_outcomes(request_ids: Sequence[UUID]) -> dict[UUID, PurchaseOutcome]:
    return {row.request_id: row for row in _fetch_outcomes(_SELECT, [list(request_ids)])}


def _merge_per_request(updates: Iterable[OutcomeUpdate]) -> list[OutcomeUpdate]:
    """One update for each request: its highest state, with what the lower ones add."""
    merged: dict[UUID, OutcomeUpdate] = {}
    for update in updates:
        other = merged.get(update.request_id)
        if other is None:
            merged[update.request_id] = update
            continue
        upper, lower = (update, other) if update.state.rank > other.state.rank else (other, update)
        merged[update.request_id] = upper._replace(
            order_id=upper.order_id or lower.order_id, is_released=upper.is_released or lower.is_released
        )
    return list(merged.values())


def _fetch_outcomes(statement: str, parameters: Sequence[Any]) -> list[PurchaseOutcome]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return [
            PurchaseOutcome(request_id, user_id, sale_id, PurchaseState(state), *rest)
            for request_id, user_id, sale_id, state, *rest in cursor.fetchall()
        ]
