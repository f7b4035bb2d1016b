"""Orders, payments and discrepancies in the admin. Paid orders can be refunded, open discrepancies closed."""

from __future__ import annotations

from functools import partial

from django.contrib import admin
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from orders import reconciliation, refunds
from orders.models import Discrepancy, Order, Payment
from orders.payments.provider import ProviderDown
from orders.reconciliation import DiscrepancyNotOpen
from orders.refunds import RefundRejected
from seckill.audit.operator_admin import OperatorAction, OperatorAdmin


def _refund(return_units: bool, order: Order, reason: str) -> str:
    owed = refunds.refund_order(order.id, return_units=return_units, because=reason)
    try:
        is_back = refunds.send_refund(owed.payment_id)
    except ProviderDown:
        is_back = False
    texts = {
        True: _("Order %(order)s is refunded; the money is back."),
        False: _("Order %(order)s is refunded; the money is owed until the provider confirms."),
    }
    return texts[is_back] % {"order": order.id}


def _close(discrepancy: Discrepancy, reason: str) -> str:
    if not reason:
        raise DiscrepancyNotOpen(_("a reason is required"))
    reconciliation.close_discrepancy(discrepancy.pk, because=reason)
    return _("Discrepancy %(id)d is closed.") % {"id": discrepancy.pk}


@admin.register(Order)
class OrderAdmin(OperatorAdmin):
    list_display = ("id", "user_id", "sale_id", "sku", "quantity", "amount", "state", "placed_at")
    list_filter = ("state",)
    search_ids = ("id", "request_id")
    search_texts = ("user_id",)
    ordering = ("-placed_at", "id")
    operator_actions = (
        OperatorAction(
            "refund", "refund", "refund", gettext_lazy("Refund; the units stay sold"), partial(_refund, False),
            (RefundRejected,),
        ),
        OperatorAction(
            "refund_and_return", "refund", "refund", gettext_lazy("Refund; the units go back into the sale"),
            partial(_refund, True), (RefundRejected,),
        ),
    )  # fmt: skip


@admin.register(Payment)
class PaymentAdmin(OperatorAdmin):
    list_display = ("id", "order_id", "amount", "state", "late", "opened_at", "captured_at", "refunded_at")
    list_filter = ("state",)
    search_ids = ("id", "order_id")
    ordering = ("-opened_at", "id")
    raw_id_fields = ("order",)


@admin.register(Discrepancy)
class DiscrepancyAdmin(OperatorAdmin):
    list_display = ("id", "kind", "payment_id", "order_id", "amount", "state", "found_at")
    list_filter = ("state", "kind")
    search_ids = ("payment_id",)
    ordering = ("-id",)
    operator_actions = (
        OperatorAction(
            "close", "reconcile close", "operate", gettext_lazy("Close"), _close, (DiscrepancyNotOpen,)
        ),
    )  # fmt: skip
