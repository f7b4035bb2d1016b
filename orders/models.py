"""The tables of orders. A state changes only by a conditional UPDATE (orders/lifecycle.py), with a row of history."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class Order(models.Model):
    """One purchase that was granted. The id follows from the request, so placing it twice is placing it once."""

    id = models.UUIDField(primary_key=True)
    request_id = models.UUIDField(unique=True)
    user_id = models.CharField(max_length=200, db_index=True)
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


class ReadDecision(models.Model):
    """The inbox: each decision is worked on once."""

    event_id = models.UUIDField(primary_key=True)
    request_id = models.UUIDField()
    decision = models.CharField(max_length=15)

    class Meta:
        db_table = "orders_read_decision"


class Payment(models.Model):
    """One attempt to pay. `captured` and `refunded` are what the provider has said, once each."""

    id = models.UUIDField(primary_key=True)  # also the provider's idempotency key
    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="payments")
    amount = models.BigIntegerField()
    state = models.CharField(max_length=12, default="open")  # open, captured, voided, refunding, refunded
    provider_reference = models.CharField(max_length=100, blank=True)
    opened_at = models.DateTimeField(auto_now_add=True)
    captured_at = models.DateTimeField(null=True)
    refunded_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "orders_payment"


class Callback(models.Model):
    """Every callback of the provider that was genuine, once by its id; how often it came is counted."""

    callback_id = models.CharField(max_length=100, primary_key=True)
    payment_id = models.UUIDField()
    kind = models.CharField(max_length=20)
    received = models.IntegerField(default=1)
    first_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "orders_callback"
