"""Operations on sales, orders and consumers, and the audit page. The commands write the audit trail themselves."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET

from inventory import sale_commands
from inventory.models import Stock
from orders import refunds
from orders.payments.provider import ProviderDown
from seckill.audit.trail import list_entries
from seckill.console.labels import operation_label
from seckill.console.notices import OperationRefused, operation, parse_integer
from seckill.console.permissions import require_permission
from seckill.console.staff import operator_required
from seckill.messaging import group_switches

SALE_STATES = {
    "open": ("open", _("Sale %(sale)d is open.")),
    "pause": ("paused", _("Sale %(sale)d is paused.")),
    "close": ("closed", _("Sale %(sale)d is closed.")),
}
REASON_CHARACTERS_MAX = 500
ENTRIES_MAX = 200


@operation
def sale(request: HttpRequest, sale_id: int) -> str:
    verb = request.POST.get("verb", "")
    require_permission(request, f"sale {verb}")
    if verb == "adjust":
        return _adjust_stock(sale_id, request.POST.get("sku", ""), parse_integer(request.POST.get("units", "")))
    if verb not in SALE_STATES:
        raise OperationRefused(gettext("This operation does not exist."))
    state, text = SALE_STATES[verb]
    sale_commands.set_sale_state(sale_id, state)
    return str(text) % {"sale": sale_id}


def _adjust_stock(sale_id: int, sku: str, units: int) -> str:
    """Without an article, the only one of the sale."""
    skus = [sku] if sku else list(Stock.objects.filter(sale_id=sale_id).values_list("sku", flat=True))
    if not skus:
        raise OperationRefused(gettext("This sale does not exist."))
    if len(skus) > 1:
        raise OperationRefused(gettext("This sale has several articles. Name the one whose stock changes."))
    stock = sale_commands.adjust_stock(sale_id, skus[0], units)
    return gettext("%(units)d units are available now.") % {"units": stock.available}


@operation
def refund(request: HttpRequest) -> str:
    require_permission(request, "refund")
    try:
        order_id = UUID(request.POST.get("order", "").strip())
    except ValueError as error:
        raise OperationRefused(gettext("This is not the id of an order.")) from error
    return_units = request.POST.get("return_units") == "on"
    reason = request.POST.get("because", "")[:REASON_CHARACTERS_MAX]
    return _refund(order_id, return_units, reason)


def _refund(order_id: UUID, return_units: bool, reason: str) -> str:
    owed = refunds.refund_order(order_id, return_units=return_units, because=reason)
    try:
        is_paid_back = refunds.send_refund(owed.payment_id)
    except ProviderDown:
        is_paid_back = False
    if is_paid_back:
        return gettext("Refunded. The money has been returned.")
    return gettext("Refunded. The money will be returned as soon as the payment provider answers.")


@operation
def switch_group(request: HttpRequest) -> str:
    require_permission(request, "switch")
    has_changed = group_switches.set_switch(request.POST.get("group", ""), on=request.POST.get("on") == "1")
    return gettext("Done.") if has_changed else gettext("Nothing to change.")


@require_GET
@operator_required
def audit(request: HttpRequest) -> HttpResponse:
    entries = list_entries(most=ENTRIES_MAX)[::-1]
    return render(request, "console/audit.html", {"rows": [(operation_label(entry.verb), entry) for entry in entries]})
