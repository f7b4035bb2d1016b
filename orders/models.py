"""The tables of orders. A state changes only by a conditional UPDATE (orders/lifecycle.py), with a row of history."""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Order(models.Model):
    """One purchase that was granted. The id follows from the request, so placing it twice is placing it once."""

    id = models.UUIDField(primary_key=True)
    request_id = models.UUIDField(unique=True)
    user_id = models.CharField(max_length=200)
    sale_id = models.BigIntegerField()
    sku = models.CharField(max_length=100)
    quantity = models.IntegerField()
    amount = models.BigIntegerField()
    state = models.CharField(max_length=20)
    placed_at = models.DateTimeField()
    pay_before = models.DateTimeField()
    origin = models.JSONField(null=True)
    cause = models.UUIDField()  # the decision it rests on

    class Meta:
        db_table = "orders_order"
        indexes = [
            models.Index(fields=["pay_before"], condition=Q(state="PENDING_PAYMENT"), name="orders_order_due"),
            models.Index(fields=["user_id", "placed_at", "id"], name="orders_order_page"),
            BrinIndex(fields=["placed_at"], autosummarize=True, name="orders_order_placed"),
        ]


class Transition(models.Model):
    """Every change of state, in order: the order's history."""

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="transitions")
    before = models.CharField(max_length=20, blank=True)
    after = models.CharField(max_length=20)
    event_id = models.UUIDField(unique=True)
    at = models.DateTimeField()

    class Meta:
        db_table = "orders_transition"
        constraints = [models.UniqueConstraint(fields=["order", "after"], name="orders_transition_once")]
        indexes = [BrinIndex(fields=["at"], autosummarize=True, name="orders_transition_at")]


class ReadDecision(models.Model):
    """The inbox: each decision is worked on once."""

    event_id = models.UUIDField(primary_key=True)
    request_id = models.UUIDField()
    decision = models.CharField(max_length=15)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "orders_read_decision"
        indexes = [BrinIndex(fields=["at"], autosummarize=True, name="orders_read_decision_at")]


class Payment(models.Model):
    """One attempt to pay. `captured` and `refunded` are what the provider has said, once each.

    `late`: the money came when the order did not wait for it any more, and goes back. Of those that were not, an order
    has one at most: that is the payment which it was paid with.
    """

    id = models.UUIDField(primary_key=True)  # also the provider's idempotency key
    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="payments")
    amount = models.BigIntegerField()
    state = models.CharField(max_length=12, default="open")  # open, captured, voided, refunding, refunded
    provider_reference = models.CharField(max_length=100, blank=True)
    opened_at = models.DateTimeField(auto_now_add=True)
    captured_at = models.DateTimeField(null=True)
    refunded_at = models.DateTimeField(null=True)
    late = models.BooleanField(default=False, db_default=False)
    matched = models.BooleanField(default=False, db_default=False)  # its capture stands in the provider's log

    class Meta:
        db_table = "orders_payment"
        constraints = [
            models.UniqueConstraint(
                fields=["order"],
                condition=Q(state__in=["captured", "refunding", "refunded"], late=False),
                name="orders_payment_one_that_counts",
            )
        ]
        indexes = [
            models.Index(fields=["opened_at"], condition=Q(state__in=["open", "refunding"]), name="orders_payment_due"),
            models.Index(
                fields=["captured_at"], condition=Q(captured_at__isnull=False, matched=False), name="orders_payment_new"
            ),
        ]


class Callback(models.Model):
    """Every callback of the provider that was genuine, once by its id; how often it came is counted."""

    callback_id = models.CharField(max_length=100, primary_key=True)
    payment_id = models.UUIDField()
    kind = models.CharField(max_length=20)
    received = models.IntegerField(default=1)
    first_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "orders_callback"
        indexes = [BrinIndex(fields=["first_at"], autosummarize=True, name="orders_callback_at")]


class ProviderLog(models.Model):
    """How far the provider's log has been compared with ours. One row."""

    name = models.CharField(max_length=40, primary_key=True)
    read_to = models.BigIntegerField(default=0)
    read_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "orders_provider_log"


class Discrepancy(models.Model):
    """Where the provider's log and ours do not agree. `owed`: an orphan whose money is being given back; `open`: for an
    operator to look at; `settled`: it has been explained since."""

    payment_id = models.UUIDField()
    kind = models.CharField(max_length=80)  # a Finding, in its words
    order_id = models.CharField(max_length=100, blank=True)  # as the provider names it
    amount = models.BigIntegerField()
    state = models.CharField(max_length=10)  # open, owed, settled
    found_at = models.DateTimeField(auto_now_add=True)
    settled_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "orders_discrepancy"
        constraints = [models.UniqueConstraint(fields=["payment_id", "kind"], name="orders_discrepancy_once")]
