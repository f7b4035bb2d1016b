"""Tables of inventory. The stock row decides, the ledger is its history, and holds say which buyer has the units.

Holds and ledger entries are written only under the lock of their stock row, so that row cannot disappear. Their foreign
keys are therefore not enforced: Postgres would look the row up again for each entry while other batches wait for it.
"""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from inventory.events import Decision
from inventory.states import ACTIVE_HOLDS, Account, EntryKind, GateAction, HoldState, SaleState


class Sale(models.Model):
    """One flash sale. Times are in milliseconds. Admission checks the window; inventory only checks `state`."""

    name = models.CharField(_("name"), max_length=200)
    state = models.CharField(_("state"), max_length=10, choices=SaleState.choices, default=SaleState.OPEN)
    opens_at_ms = models.BigIntegerField()
    closes_at_ms = models.BigIntegerField()
    closed_at_ms = models.BigIntegerField(null=True)  # when an operator closed the sale

    class Meta:
        db_table = "inventory_sale"
        verbose_name, verbose_name_plural = _("sale"), _("sales")
        constraints = [models.CheckConstraint(condition=Q(state__in=SaleState.values), name="inventory_sale_state")]

    def __str__(self) -> str:
        return f"{self.pk} {self.name}"


class Stock(models.Model):
    """Units of one article in one sale. Each change adds one ledger entry and raises `version` by one."""

    sale = models.ForeignKey(Sale, on_delete=models.PROTECT, verbose_name=_("sale"))
    sku = models.CharField(max_length=100)
    unit_price = models.BigIntegerField()
    cap = models.IntegerField()  # maximum units in one purchase
    declared = models.BigIntegerField()
    available = models.BigIntegerField(_("available"))
    reserved = models.BigIntegerField(_("reserved"), default=0)
    sold = models.BigIntegerField(_("sold"), default=0)
    version = models.BigIntegerField(default=1)
    gate_epoch = models.BigIntegerField(default=0)  # selects the Redis keys that propose for this stock
    gate_owed = models.BooleanField(default=False)  # the keys are known to be wrong and must be rebuilt
    gate_retired = models.BooleanField(default=False, db_default=False)  # the sale has ended; the keys were deleted

    class Meta:
        db_table = "inventory_stock"
        verbose_name = verbose_name_plural = _("stock")
        constraints = [
            models.UniqueConstraint(fields=["sale", "sku"], name="inventory_stock_one"),
            models.CheckConstraint(
                condition=Q(available__gte=0, reserved__gte=0, sold__gte=0), name="inventory_stock_never_negative"
            ),
            models.CheckConstraint(condition=Q(version__gt=0) & Q(cap__gt=0), name="inventory_stock_sane"),
        ]

    def __str__(self) -> str:
        return f"{self.sku} (sale {self.sale_id})"

    def move_units(self, debit: Account, credit: Account, units: int) -> None:
        """Move units between two accounts of this row, in memory. `supply` is outside the row and has no column."""
        self._add_units(debit, -units)
        self._add_units(credit, units)
        self.version += 1

    def _add_units(self, account: Account, units: int) -> None:
        match account:
            case Account.AVAILABLE:
                self.available += units
            case Account.RESERVED:
                self.reserved += units
            case Account.SOLD:
                self.sold += units
            case Account.SUPPLY:
                pass


class Hold(models.Model):
    """The units of one purchase. The partial unique index allows one active hold per user and sale."""

    request_id = models.UUIDField(primary_key=True)
    stock = models.ForeignKey(Stock, on_delete=models.PROTECT, db_constraint=False, db_index=False)
    sale = models.ForeignKey(Sale, on_delete=models.PROTECT, db_constraint=False, db_index=False)
    user_id = models.CharField(_("buyer"), max_length=200)
    quantity = models.IntegerField(_("units"))
    state = models.CharField(_("state"), max_length=10, choices=HoldState.choices, default=HoldState.RESERVED)
    origin = models.JSONField()  # position of the purchase request in its topic

    class Meta:
        db_table = "inventory_hold"
        verbose_name, verbose_name_plural = _("stock hold"), _("stock holds")
        constraints = [
            models.UniqueConstraint(
                fields=["sale", "user_id"], condition=Q(state__in=ACTIVE_HOLDS), name="inventory_hold_one_active"
            ),
            models.CheckConstraint(condition=Q(state__in=HoldState.values), name="inventory_hold_state"),
        ]

    def __str__(self) -> str:
        return str(self.request_id)


class LedgerEntry(models.Model):
    """Units moved from one account to another. Append-only. Each cause makes one entry of a kind."""

    stock = models.ForeignKey(Stock, on_delete=models.PROTECT, db_constraint=False, db_index=False)
    version = models.BigIntegerField()  # of the stock row after this entry
    debit = models.CharField(_("from"), max_length=10, choices=Account.choices)
    credit = models.CharField(_("to"), max_length=10, choices=Account.choices)
    units = models.BigIntegerField(_("units"))
    kind = models.CharField(_("kind"), max_length=10, choices=EntryKind.choices)
    cause = models.UUIDField()  # the request, the order event or the operator's command
    request_id = models.UUIDField(null=True)
    at = models.DateTimeField(_("at (UTC)"), db_default=Now())

    class Meta:
        db_table = "inventory_ledger"
        verbose_name, verbose_name_plural = _("ledger entry"), _("ledger entries")
        constraints = [
            models.UniqueConstraint(fields=["stock", "version"], name="inventory_ledger_version"),
            models.UniqueConstraint(fields=["kind", "cause"], name="inventory_ledger_cause"),
            models.CheckConstraint(condition=Q(units__gt=0) & ~Q(debit=F("credit")), name="inventory_ledger_moves"),
            models.CheckConstraint(
                condition=Q(debit__in=Account.values, credit__in=Account.values), name="inventory_ledger_accounts"
            ),
            models.CheckConstraint(condition=Q(kind__in=EntryKind.values), name="inventory_ledger_kind"),
        ]
        indexes = [BrinIndex(fields=["at"], autosummarize=True, name="inventory_ledger_at")]

    def __str__(self) -> str:
        return f"{self.kind} {self.units} ({self.debit} → {self.credit})"


class DecidedRequest(models.Model):
    """The inbox: each decided request with its decision, kept while the log may still deliver the request again."""

    request_id = models.UUIDField(primary_key=True)
    user_id = models.CharField(_("buyer"), max_length=200)
    sale_id = models.BigIntegerField()
    sku = models.CharField(max_length=100)
    quantity = models.IntegerField(_("units"))
    decision = models.CharField(_("decision"), max_length=15, choices=[(each.value, each.value) for each in Decision])
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
        verbose_name, verbose_name_plural = _("decided request"), _("decided requests")
        constraints = [
            models.UniqueConstraint(
                fields=["topic_id", "partition", "offset", "cluster_id"], name="inventory_decided_place"
            ),
            models.CheckConstraint(
                condition=Q(decision__in=[each.value for each in Decision]), name="inventory_decided_decision"
            ),
        ]
        indexes = [BrinIndex(fields=["decided_at_ms"], autosummarize=True, name="inventory_decided_at")]

    def __str__(self) -> str:
        return f"{self.request_id} {self.decision}"


class Redelivery(models.Model):
    """A request that the log delivered again. It keeps its first decision; this row only counts the repeat."""

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

    def __str__(self) -> str:
        return f"{self.request_id} at {self.topic_id}-{self.partition}@{self.offset}"


class SettledEvent(models.Model):
    """The inbox of order events: each is posted once."""

    event_id = models.UUIDField(primary_key=True)
    kind = models.CharField(max_length=30)
    request_id = models.UUIDField()
    posted = models.BooleanField()  # False: the event moved no units
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "inventory_settled"
        indexes = [BrinIndex(fields=["at"], autosummarize=True, name="inventory_settled_at")]

    def __str__(self) -> str:
        return f"{self.kind} {self.event_id}"


class GateSync(models.Model):
    """A change that is committed but not yet in the gate. The row is deleted once the gate has it."""

    stock = models.ForeignKey(Stock, on_delete=models.PROTECT, db_constraint=False)
    request_id = models.UUIDField()
    action = models.CharField(max_length=10, choices=GateAction.choices, default=GateAction.RELEASE)

    class Meta:
        db_table = "inventory_gate_sync"
        constraints = [models.CheckConstraint(condition=Q(action__in=GateAction.values), name="inventory_sync_action")]

    def __str__(self) -> str:
        return f"{self.action} {self.request_id}"
