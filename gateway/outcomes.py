"""From events to what a buyer sees. States have ranks; a lower one never follows a higher one."""

from __future__ import annotations

from typing import NamedTuple
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
    "REFUNDED": 50,
    **{decision.value: 60 for decision in Decision if decision is not Decision.RESERVED},
}
"""A refusal is final, so it ranks above all; it never meets the others."""

OF_ORDER: dict[OrderEvent, str] = {
    OrderEvent.PLACED: "AWAITING_PAYMENT",
    OrderEvent.PAID: "PAID",
    OrderEvent.EXPIRED: "EXPIRED",
    OrderEvent.CANCELLED: "CANCELLED",
    OrderEvent.REFUNDED: "REFUNDED",
}


class Seen(NamedTuple):
    request_id: UUID
    user_id: str
    sale_id: int
    state: str
    order_id: UUID | None = None
    pay_before_ms: int | None = None


_RAISE = """
INSERT INTO gateway_outcome (request_id, user_id, sale_id, state, rank, order_id, pay_before_ms, may_buy_again,
                             updated_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, false, now())
ON CONFLICT (request_id) DO UPDATE
SET state = EXCLUDED.state, rank = EXCLUDED.rank, order_id = COALESCE(EXCLUDED.order_id, gateway_outcome.order_id),
    pay_before_ms = COALESCE(EXCLUDED.pay_before_ms, gateway_outcome.pay_before_ms), updated_at = now()
WHERE gateway_outcome.rank < EXCLUDED.rank
"""

_AGAIN = "UPDATE gateway_outcome SET may_buy_again = true, updated_at = now() WHERE request_id = %s"


def seen(event: PurchaseDecided | UnitsReleased | OrderChanged) -> Seen | None:
    """What an event means to the buyer; None: nothing that changes his state."""
    match event:
        case PurchaseDecided():
            return Seen(event.request_id, event.user_id, event.sale_id, event.decision.value)
        case OrderChanged() if event.event in OF_ORDER:
            state = OF_ORDER[event.event]
            return Seen(event.request_id, event.user_id, event.sale_id, state, event.order_id, event.pay_before_ms)
        case _:
            return None


def project(event: PurchaseDecided | UnitsReleased | OrderChanged) -> None:
    """Inside the transaction of the consume loop."""
    found = seen(event)
    with connection.cursor() as cursor:
        if found is not None:
            cursor.execute(
                _RAISE,
                [
                    found.request_id, found.user_id, found.sale_id, found.state, RANKS[found.state], found.order_id,
                    found.pay_before_ms,
                ],
            )  # fmt: skip
        elif isinstance(event, UnitsReleased):
            cursor.execute(_AGAIN, [event.request_id])
