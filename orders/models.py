"""Tables of orders. An order's state changes only by a conditional UPDATE, with a row of history (orders/lifecycle.py).

Times that are compared with each other are set by the database, so all of them come from one clock.
"""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from orders.payments.matching import Finding
from orders.states import DiscrepancyState, OrderState, PaymentState


class Order(models.Model):
    """One granted purchase. The id is derived from the request, so placing the same request twice makes one order."""

    id = models.UUIDField(primary_key=True)
    request_id = models.UUIDField(unique=True)
    user_id = models.CharField(_("buyer"), max_length=200)
    sale_id = models.BigIntegerField()
    sku = models.CharField(max_length=100)
    quantity = models.IntegerField(_("units"))
    amount = models.BigIntegerField(_("amount"))  # in the smallest coin
    state = models.CharField(_("state"), max_length=20, choices=OrderState.choices)
    placed_at = models.DateTimeField(_("placed (UTC)"))
    pay_before = models.DateTimeField(_("pay before (UTC)"))
    origin = models.JSONField(null=True)  # position of the purchase request in its topic
    cause = models.UUIDField()  # event id of the decision

    class Meta:
        db_table = "orders_order"
        verbose_name, verbose_name_plural = _("order"), _("orders")
        constraints = [models.CheckConstraint(condition=Q(state__in=OrderState.values), name="orders_order_state")]
        indexes = [
            models.Index(fields=["pay_before"], condition=Q(state=OrderState.PENDING_PAYMENT), name="orders_order_due"),
            models.Index(fields=["user_id", "placed_at", "id"], name="orders_order_page"),
            BrinIndex(fields=["placed_at"], autosummarize=True, name="orders_order_placed"),
        ]

    def __str__(self) -> str:
        return str(self.id)


class Transition(models.Model):
    """One change of state: the order's history, in order."""

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="transitions")
    before = models.CharField(max_length=20, blank=True, choices=OrderState.choices)
    after = models.CharField(max_length=20, choices=OrderState.choices)
    event_id = models.UUIDField(unique=True)
    at = models.DateTimeField()

    class Meta:
        db_table = "orders_transition"
        constraints = [
            models.UniqueConstraint(fields=["order", "after"], name="orders_transition_once"),
            models.CheckConstraint(
                condition=Q(before__in=["", *OrderState.values], after__in=OrderState.values),
                name="orders_transition_states",
            ),
        ]
        indexes = [BrinIndex(fields=["at"], autosummarize=True, name="orders_transition_at")]

    def __str__(self) -> str:
        return f"{self.before or '–'} → {self.after}"


class ReadDecision(models.Model):
    """The inbox: each decision is handled once."""

    event_id = models.UUIDField(primary_key=True)
    request_id = models.UUIDField()
    decision = models.CharField(max_length=15)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "orders_read_decision"
        indexes = [BrinIndex(fields=["at"], autosummarize=True, name="orders_read_decision_at")]

    def __str__(self) -> str:
        return f"{self.decision} {self.event_id}"


class Payment(models.Model):
    """One attempt to pay. `captured_at` and `refunded_at` are set once, when the provider reports it.

    `late`: the money arrived after the order had ended, so it is refunded. An order has at most one payment that is
    captured and not late: the payment that paid for it.
    """

    id = models.UUIDField(primary_key=True)  # also the provider's idempotency key
    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="payments", verbose_name=_("order"))
    amount = models.BigIntegerField(_("amount"))
    state = models.CharField(_("state"), max_length=12, choices=PaymentState.choices, default=PaymentState.OPEN)
    provider_reference = models.CharField(max_length=100, blank=True)
    opened_at = models.DateTimeField(_("opened (UTC)"), db_default=Now())
    captured_at = models.DateTimeField(_("captured (UTC)"), null=True)
    refunded_at = models.DateTimeField(_("refunded (UTC)"), null=True)
    late = models.BooleanField(_("late"), default=False, db_default=False)
    matched = models.BooleanField(default=False, db_default=False)  # the provider's log contains the capture

    class Meta:
        db_table = "orders_payment"
        verbose_name, verbose_name_plural = _("payment"), _("payments")
        constraints = [
            models.CheckConstraint(condition=Q(state__in=PaymentState.values), name="orders_payment_state"),
            models.UniqueConstraint(
                fields=["order"],
                condition=Q(
                    state__in=[PaymentState.CAPTURED, PaymentState.REFUNDING, PaymentState.REFUNDED], late=False
                ),
                name="orders_payment_one_that_counts",
            ),
        ]
        indexes = [
            models.Index(
                fields=["opened_at"],
                condition=Q(state__in=[PaymentState.OPEN, PaymentState.REFUNDING]),
                name="orders_payment_due",
            ),
            models.Index(
                fields=["captured_at"], condition=Q(captured_at__isnull=False, matched=False), name="orders_payment_new"
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class Callback(models.Model):
    """A genuine callback of the provider, one row per callback id. `received` counts its repeats."""

    callback_id = models.CharField(max_length=100, primary_key=True)
    payment_id = models.UUIDField()
    kind = models.CharField(max_length=20)
    received = models.IntegerField(default=1)
    first_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "orders_callback"
        indexes = [BrinIndex(fields=["first_at"], autosummarize=True, name="orders_callback_at")]

    def __str__(self) -> str:
        return self.callback_id


class ProviderLog(models.Model):
    """How far reconciliation has read the provider's log. One row."""

    name = models.CharField(max_length=40, primary_key=True)
    read_to = models.BigIntegerField(default=0)
    read_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "orders_provider_log"

    def __str__(self) -> str:
        return f"{self.name} at {self.read_to}"


class Discrepancy(models.Model):
    """A payment on which the provider's log and our tables disagree."""

    payment_id = models.UUIDField()
    kind = models.CharField(_("kind"), max_length=80, choices=Finding.choices)
    order_id = models.CharField(max_length=100, blank=True)  # as the provider reports it
    amount = models.BigIntegerField(_("amount"))
    state = models.CharField(_("state"), max_length=10, choices=DiscrepancyState.choices)
    found_at = models.DateTimeField(_("found (UTC)"), db_default=Now())
    settled_at = models.DateTimeField(_("settled (UTC)"), null=True)

    class Meta:
        db_table = "orders_discrepancy"
        verbose_name, verbose_name_plural = _("discrepancy"), _("discrepancies")
        constraints = [
            models.UniqueConstraint(fields=["payment_id", "kind"], name="orders_discrepancy_once"),
            models.CheckConstraint(condition=Q(state__in=DiscrepancyState.values), name="orders_discrepancy_state"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.payment_id}"
