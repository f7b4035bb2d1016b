"""Sales, stock, ledger, holds and decisions in the admin. Sales can be opened, paused and closed."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from django.contrib import admin
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from inventory import sale_commands
from inventory.models import DecidedRequest, Hold, LedgerEntry, Sale, Stock
from inventory.sale_commands import SaleCommandRejected
from inventory.states import SaleState
from seckill.audit.operator_admin import OperatorAction, OperatorAdmin

LAST_MS = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp() * 1000)


def _set_state(state: SaleState, sale: Sale, reason: str) -> str:
    sale_commands.set_sale_state(sale.pk, state)
    return _("Sale %(sale)d is now %(state)s.") % {"sale": sale.pk, "state": state.label}


def _sale_action(verb: str, state: SaleState, label: object) -> OperatorAction:
    run = partial(_set_state, state)
    return OperatorAction(verb, f"sale {verb}", "operate", label, run, (SaleCommandRejected,))  # type: ignore[arg-type]


def _time(at_ms: int) -> datetime | None:
    """None, which the admin shows as a dash, if the year has more than four digits: such a sale never closes."""
    return datetime.fromtimestamp(at_ms / 1000, UTC) if at_ms < LAST_MS else None


@admin.register(Sale)
class SaleAdmin(OperatorAdmin):
    list_display = ("id", "name", "state", "opens_at", "closes_at")
    list_filter = ("state",)
    ordering = ("-id",)
    operator_actions = (
        _sale_action("open", SaleState.OPEN, gettext_lazy("Open")),
        _sale_action("pause", SaleState.PAUSED, gettext_lazy("Pause")),
        _sale_action("close", SaleState.CLOSED, gettext_lazy("Close")),
    )

    @admin.display(description=gettext_lazy("opens at"), ordering="opens_at_ms")
    def opens_at(self, sale: Sale) -> datetime | None:
        return _time(sale.opens_at_ms)

    @admin.display(description=gettext_lazy("closes at"), ordering="closes_at_ms")
    def closes_at(self, sale: Sale) -> datetime | None:
        return _time(sale.closes_at_ms)


@admin.register(Stock)
class StockAdmin(OperatorAdmin):
    list_display = ("id", "sale", "sku", "declared", "available", "reserved", "sold", "version", "gate_epoch")
    list_select_related = ("sale",)
    search_texts = ("sku",)
    ordering = ("-id",)


@admin.register(LedgerEntry)
class LedgerEntryAdmin(OperatorAdmin):
    list_display = ("id", "stock_id", "version", "kind", "debit", "credit", "units", "request_id", "at")
    list_filter = ("kind",)
    search_ids = ("cause",)
    ordering = ("-id",)
    raw_id_fields = ("stock",)


@admin.register(Hold)
class HoldAdmin(OperatorAdmin):
    list_display = ("request_id", "sale_id", "user_id", "quantity", "state")
    list_filter = ("state",)
    search_ids = ("request_id",)
    search_texts = ("user_id",)
    ordering = ("request_id",)
    raw_id_fields = ("stock", "sale")


@admin.register(DecidedRequest)
class DecidedRequestAdmin(OperatorAdmin):
    list_display = ("request_id", "sale_id", "sku", "user_id", "quantity", "decision", "stock_version")
    list_filter = ("decision",)
    search_ids = ("request_id",)
    ordering = ("request_id",)
