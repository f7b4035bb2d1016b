"""Values: the states of orders, payments and discrepancies, and their names for people.

Each column that holds one of these values has a CHECK constraint made from the same class.
"""

from __future__ import annotations

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from seckill.web.purchase_states import PurchaseState


class OrderState(TextChoices):
    """A buyer sees an order and its purchase side by side, so both have the same labels."""

    PENDING_PAYMENT = "PENDING_PAYMENT", PurchaseState.AWAITING_PAYMENT.label
    PAID = "PAID", PurchaseState.PAID.label
    EXPIRED = "EXPIRED", PurchaseState.EXPIRED.label
    CANCELLED = "CANCELLED", PurchaseState.CANCELLED.label
    REFUNDED = "REFUNDED", PurchaseState.REFUNDED.label
    NOT_PLACED = "NOT_PLACED", PurchaseState.NOT_PLACED.label
    """An operator discarded the decision. The row only records that; nothing can follow."""


class PaymentState(TextChoices):
    OPEN = "open", _("started")
    CAPTURED = "captured", _("captured")
    VOIDED = "voided", _("voided")
    REFUNDING = "refunding", _("refund owed")
    REFUNDED = "refunded", _("refunded")


class DiscrepancyState(TextChoices):
    OPEN = "open", _("waiting for an operator")
    OWED = "owed", _("refund owed")
    SETTLED = "settled", _("settled")
