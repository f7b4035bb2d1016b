"""From events to what a buyer sees. States have ranks; a lower one never follows a higher one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from inventory.events import Decision, PurchaseDecided, UnitsReleased
from orders.events import OrderChanged, OrderEvent

RANKS: dict[str, int] = {
    "RESERVED": 10,
    "AWAITING_PAYMENT": 20,
    "PAID": 30,
    "EXPIRED": 40,
    "CANCELLED": 40,
    "NOT_PLACED": 40,
    "REFUNDED": 50,
    **{decision.value: 60 for decision in Decision if decision is not Decision.RESERVED},
}
"""A refusal is final, so it ranks above all; it never meets the others."""

REFUSED = frozenset(decision.value for decision in Decision if decision is not Decision.RESERVED)

OF_ORDER: dict[OrderEvent, str] = {
    OrderEvent.PLACED: "AWAITING_PAYMENT",
    OrderEvent.PAID: "PAID",
    OrderEvent.EXPIRED: "EXPIRED",
    OrderEvent.CANCELLED: "CANCELLED",
    OrderEvent.REFUNDED: "REFUNDED",
    OrderEvent.NOT_PLACED: "NOT_PLACED",
}

RETURNING = ("EXPIRED", "CANCELLED", "NOT_PLACED")
"""Nothing was bought, and the units go back: then the buyer may buy again."""

Event = PurchaseDecided | UnitsReleased | OrderChanged


class Seen(NamedTuple):
    """What an event, or several of one request, mean to its buyer. `is_released`: the units are back in stock."""

    request_id: UUID
    user_id: str
    sale_id: int
    state: str
    order_id: UUID | None = None
    pay_before_ms: int | None = None
    is_released: bool = False


class Shown(NamedTuple):
    """A row of the projection: all that a buyer is shown of a request."""

    request_id: UUID
    user_id: str
    sale_id: int
    state: str
    order_id: UUID | None
    pay_before_ms: int | None
    may_buy_again: bool

    @property
    def version(self) -> int:
        """Grows with every change of the row."""
        return 2 * RANKS[self.state] + self.may_buy_again

    @property
    def is_final(self) -> bool:
        """Nothing will follow."""
        return self.state in REFUSED or (self.state in RETURNING and self.may_buy_again)


_COLUMNS = "request_id, user_id, sale_id, state, order_id, pay_before_ms, may_buy_again"

# One statement, in the order of request ids: it locks each row before it looks at it, so batches of the two topics that
# have the same requests wait for each other, and never in a circle.
_RAISE = f"""
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

_FIND = f"SELECT {_COLUMNS} FROM gateway_outcome WHERE request_id = %s"


def seen(event: Event) -> Seen | None:
    """What an event means to the buyer; None: nothing that changes his state."""
    match event:
        case PurchaseDecided():
            return Seen(event.request_id, event.user_id, event.sale_id, event.decision.value)
        case OrderChanged() if event.event in OF_ORDER:
            state = OF_ORDER[event.event]
            return Seen(event.request_id, event.user_id, event.sale_id, state, event.order_id, event.pay_before_ms)
        case UnitsReleased():  # proves that they were reserved, even if that decision could not be projected
            return Seen(event.request_id, event.user_id, event.sale_id, "RESERVED", is_released=True)
        case _:
            return None


def project(events: Sequence[Event], places: Mapping[UUID, str] | None = None) -> list[Shown]:
    """Inside the transaction of the consume loop: the rows that have changed, as they are now. `places` of the requests
    in their topic, as far as they are known."""
    known = places or {}
    bodies = {event.request_id: (event.sku, event.quantity, known.get(event.request_id)) for event in events}
    highest = _highest(filter(None, map(seen, events)))
    if not highest:
        return []
    ranked = [(*each[:4], RANKS[each.state], *each[4:], *bodies[each.request_id]) for each in highest]
    return _rows(_RAISE, [list(column) for column in zip(*ranked, strict=True)])


def find(request_id: UUID) -> Shown | None:
    rows = _rows(_FIND, [request_id])
    return rows[0] if rows else None


def _highest(all_seen: Iterable[Seen]) -> list[Seen]:
    """One for each request."""
    highest: dict[UUID, Seen] = {}
    for each in all_seen:
        other = highest.get(each.request_id)
        if other is None:
            highest[each.request_id] = each
            continue
        upper, lower = (each, other) if RANKS[each.state] > RANKS[other.state] else (other, each)
        highest[each.request_id] = upper._replace(
            order_id=upper.order_id or lower.order_id, is_released=upper.is_released or lower.is_released
        )
    return list(highest.values())


def _rows(statement: str, parameters: Sequence[Any]) -> list[Shown]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return [Shown(*row) for row in cursor.fetchall()]
