"""The tables of stock. The stock row is the arbiter; the ledger is its history; holds say whose the units are.

Holds and ledger entries are written only while their stock's row is locked and changed, so that it is there: foreign
keys would have Postgres ask for it again, entry by entry, before each COMMIT that the other batches wait for.
"""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

ACTIVE = ("reserved", "sold")


class Sale(models.Model):
    """One flash sale. Times are milliseconds; admission judges the window, inventory only whether it was ended."""

    name = models.CharField(max_length=200)
    state = models.CharField(max_length=10, default="open")  # open, paused, closed
    opens_at_ms = models.BigIntegerField()
    closes_at_ms = models.BigIntegerField()
    closed_at_ms = models.BigIntegerField(null=True)  # when an operator ended it

    class Meta:
        db_table = "inventory_sale"


class Stock(models.Model):
    """Units of one article in one sale. Every change raises the version by one and is one ledger entry."""

    sale = models.ForeignKey(Sale, on_delete=models.PROTECT)
    sku = models.CharField(max_length=100)
    unit_price = models.BigIntegerField()
    cap = models.IntegerField()  # most units in one purchase
    declared = models.BigIntegerField()
    available = models.BigIntegerField()
    reserved = models.BigIntegerField(default=0)
    sold = models.BigIntegerField(default=0)
    version = models.BigIntegerField(default=1)
    gate_epoch = models.BigIntegerField(default=0)  # which keys in Redis propose for it
    gate_owed = models.BooleanField(default=False)  # these are known to be wrong, and are to be counted anew
    gate_retired = models.BooleanField(
        default=False, db_default=False
    )  # the sale is over: there are no keys, and need be none

    class Meta:
        db_table = "inventory_stock"
        constraints = [
            models.UniqueConstraint(fields=["sale", "sku"], name="inventory_stock_one"),
            models.CheckConstraint(
                condition=Q(available__gte=0, reserved__gte=0, sold__gte=0), name="inventory_stock_never_negative"
            ),
            models.CheckConstraint(condition=Q(version__gt=0) & Q(cap__gt=0), name="inventory_stock_sane"),
        ]


class Hold(models.Model):
    """The units of one purchase. Active: reserved or sold. The last wall against two purchases of one user."""

    request_id = models.UUIDField(primary_key=True)
    stock = models.ForeignKey(Stock, on_delete=models.PROTECT, db_constraint=False, db_index=False)
    sale = models.ForeignKey(Sale, on_delete=models.PROTECT, db_constraint=False, db_index=False)
    user_id = models.CharField(max_length=200)
    quantity = models.IntegerField()
    state = models.CharField(max_length=10, default="reserved")  # reserved, sold, released
    origin = models.JSONField()

    class Meta:
        db_table = "inventory_hold"
        constraints = [
            models.UniqueConstraint(
                fields=["sale", "user_id"], condition=Q(state__in=ACTIVE), name="inventory_hold_one_active"
            ),
        ]


class LedgerEntry(models.Model):
    """Units moved from one account to another: supply, available, reserved, sold. Append-only; each has one cause."""

    stock = models.ForeignKey(Stock, on_delete=models.PROTECT, db_constraint=False, db_index=False)
    version = models.BigIntegerField()  # of the stock row after it
    debit = models.CharField(max_length=10)
    credit = models.CharField(max_length=10)
    units = models.BigIntegerField()
    kind = models.CharField(max_length=10)  # declare, reserve, sell, release, adjust, return
    cause = models.UUIDField()  # the request, the order event, the operator's command
    request_id = models.UUIDField(null=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "inventory_ledger"
        constraints = [
            models.UniqueConstraint(fields=["stock", "version"], name="inventory_ledger_version"),
            models.UniqueConstraint(fields=["kind", "cause"], name="inventory_ledger_cause"),
            models.CheckConstraint(condition=Q(units__gt=0) & ~Q(debit=F("credit")), name="inventory_ledger_moves"),
        ]
        indexes = [BrinIndex(fields=["at"], autosummarize=True, name="inventory_ledger_at")]


class Decided(models.Model):
    """The inbox: every request that was decided, with its decision; kept as long as the log may deliver it."""

    request_id = models.UUIDField(primary_key=True)
    user_id = models.CharField(max_length=200)
    sale_id = models.BigIntegerField()
    sku = models.CharField(max_length=100)
    quantity = models.IntegerField()
    decision = models.CharField(max_length=15)
    stock_version = models.BigIntegerField()
    decided_at_ms = models.BigIntegerField()
    admitted_at_ms = models.BigIntegerField()
    deadline_ms = models.BigIntegerField()
    cluster_id = models.CharField(max_length=64)
    topic_id = models.CharField(max_length=64)
    partition = models.IntegerField()
    offset = models.BigIntegerField(db_column="record_offset")

    class Meta:
        db_table = "inventory_decided"
        constraints = [
            models.UniqueConstraint(
                fields=["topic_id", "partition", "offset", "cluster_id"], name="inventory_decided_place"
            )
        ]
        indexes = [BrinIndex(fields=["decided_at_ms"], autosummarize=True, name="inventory_decided_at")]


class Redelivery(models.Model):
    """A request that stood in the log again: answered with its old decision, and counted."""

    request_id = models.UUIDField()
    cluster_id = models.CharField(max_length=64)
    topic_id = models.CharField(max_length=64)
    partition = models.IntegerField()
    offset = models.BigIntegerField(db_column="record_offset")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "inventory_redelivery"
        indexes = [BrinIndex(fields=["at"], autosummarize=True, name="inventory_redelivery_at")]
        constraints = [
            models.UniqueConstraint(
                fields=["topic_id", "partition", "offset", "cluster_id"], name="inventory_redelivery_place"
            )
        ]


class Settled(models.Model):
    """The inbox of order events: each is posted once."""

    event_id = models.UUIDField(primary_key=True)
    kind = models.CharField(max_length=30)
    request_id = models.UUIDField()
    posted = models.BooleanField()  # False: seen, but there was nothing to do
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "inventory_settled"
        indexes = [BrinIndex(fields=["at"], autosummarize=True, name="inventory_settled_at")]


class GateSync(models.Model):
    """What the gate still has to be told of a committed change; gone once it has been."""

    stock = models.ForeignKey(Stock, on_delete=models.PROTECT, db_constraint=False)
    request_id = models.UUIDField()
    action = models.CharField(max_length=10)  # release

    class Meta:
        db_table = "inventory_gate_sync"
