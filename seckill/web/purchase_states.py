"""The states of a purchase as its buyer sees them.

This is the only list of them: the gateway's table, the API schema, the pages, the console and the simulated buyers use
it. The values are part of the HTTP interface and of stored rows, so they never change.
"""

from __future__ import annotations

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class PurchaseState(TextChoices):
    QUEUED = "QUEUED", _("in the queue")
    RESERVED = "RESERVED", _("reserved, creating the order")
    AWAITING_PAYMENT = "AWAITING_PAYMENT", _("awaiting payment")
    PAID = "PAID", _("paid")
    EXPIRED = "EXPIRED", _("not paid in time")
    CANCELLED = "CANCELLED", _("cancelled")
    REFUNDED = "REFUNDED", _("refunded")
    NOT_PLACED = "NOT_PLACED", _("no order could be created")
    SOLD_OUT = "SOLD_OUT", _("sold out")
    DUPLICATE = "DUPLICATE", _("refused: one active purchase per buyer")
    LIMIT_REACHED = "LIMIT_REACHED", _("refused: more units than allowed")
    CLOSED = "CLOSED", _("refused: the sale had ended")
    TOO_LATE = "TOO_LATE", _("refused: the wait was too long")
    INVALID = "INVALID", _("refused: invalid request")

    @property
    def rank(self) -> int:
        return _RANKS[self]


REFUSED = frozenset(
    {
        PurchaseState.SOLD_OUT,
        PurchaseState.DUPLICATE,
        PurchaseState.LIMIT_REACHED,
        PurchaseState.CLOSED,
        PurchaseState.TOO_LATE,
        PurchaseState.INVALID,
    }
)
"""Inventory decided against the request. Nothing follows."""

RETURNED = frozenset({PurchaseState.EXPIRED, PurchaseState.CANCELLED, PurchaseState.NOT_PLACED})
"""Nothing was bought and the units go back into stock. The buyer may then try again."""

ENDED = REFUSED | RETURNED | {PurchaseState.PAID, PurchaseState.REFUNDED}
"""The buyer has nothing left to do."""

DECIDED = tuple(state for state in PurchaseState if state is not PurchaseState.QUEUED)
"""The states that are stored. A queued request has no row yet."""

_RANKS: dict[PurchaseState, int] = {
    PurchaseState.QUEUED: 0,
    PurchaseState.RESERVED: 10,
    PurchaseState.AWAITING_PAYMENT: 20,
    PurchaseState.PAID: 30,
    PurchaseState.EXPIRED: 40,
    PurchaseState.CANCELLED: 40,
    PurchaseState.NOT_PLACED: 40,
    PurchaseState.REFUNDED: 50,
    **dict.fromkeys(REFUSED, 60),
}
"""A purchase only moves to a higher rank, because events of two topics arrive in no fixed order. A refusal is final and
never meets the other states, so it ranks highest."""
