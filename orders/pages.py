"""Pages where buyers see, pay and cancel their own orders."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_POST

from orders import buyer_actions
from orders.models import Order, Payment
from orders.states import OrderState
from seckill.messaging import database_clock
from seckill.web.pages import buyer_required, html_page


class HistoryEntry(NamedTuple):
    at: datetime
    label: str | Promise


@require_GET
@html_page
@buyer_required
def orders(request: HttpRequest, user_id: str) -> HttpResponse:
    listed = buyer_actions.list_orders(user_id, request.GET.get("after", ""))
    context = {
        "orders": [_order_fields(order) for order in listed.orders],
        "next": listed.next,
        "now_ms": database_clock.now_ms(),
    }
    return render(request, "orders/orders.html", context)


@require_GET
@html_page
@buyer_required
def order(request: HttpRequest, user_id: str, order_id: UUID) -> HttpResponse:
    found = buyer_actions.get_order(user_id, order_id)
    context = {"order": _order_fields(found), "history": order_history(found), "now_ms": database_clock.now_ms()}
    return render(request, "orders/order.html", context)


@require_POST
@html_page
@buyer_required
def pay(request: HttpRequest, user_id: str, order_id: UUID) -> HttpResponse:
    found = buyer_actions.get_order(user_id, order_id)
    buyer_actions.start_payment(found)
    return _to_purchase(found, "&paying=1")


@require_POST
@html_page
@buyer_required
def cancel(request: HttpRequest, user_id: str, order_id: UUID) -> HttpResponse:
    found = buyer_actions.get_order(user_id, order_id)
    buyer_actions.cancel_order(found)
    return _to_purchase(found)


def order_history(order: Order) -> Sequence[HistoryEntry]:
    """Changes of the order's state and of its payments, in order of time."""
    entries = [
        HistoryEntry(
            change.at, _("ordered") if change.after == OrderState.PENDING_PAYMENT else change.get_after_display()
        )
        for change in order.transitions.all()
    ]
    for payment in order.payments.all():
        entries += _payment_entries(payment)
    return sorted(entries, key=lambda entry: entry.at)


def _payment_entries(payment: Payment) -> list[HistoryEntry]:
    received = _("payment received too late, it will be refunded") if payment.late else _("payment received")
    known = [
        (payment.opened_at, _("payment started")),
        (payment.captured_at, received),
        (payment.refunded_at, _("payment refunded")),
    ]
    return [HistoryEntry(at, label) for at, label in known if at is not None]


def _to_purchase(order: Order, query: str = "") -> HttpResponse:
    """The purchase's page shows the result live."""
    return HttpResponseRedirect(f"{_purchase_address(order)}{query}", status=303)


def _purchase_address(order: Order) -> str:
    """With the article, so that the page need not look it up."""
    query = urlencode({"sale": order.sale_id, "sku": order.sku})
    return f"{reverse('purchase', args=[order.request_id])}?{query}"


def _order_fields(order: Order) -> dict[str, object]:
    return {
        "id": order.id,
        "purchase_address": _purchase_address(order),
        "sku": order.sku,
        "quantity": order.quantity,
        "amount": order.amount,
        "state": order.state,
        "label": order.get_state_display(),
        "placed_at": order.placed_at,
        "pay_before_ms": int(order.pay_before.timestamp() * 1000),
    }


urlpatterns = [
    path("", orders, name="orders"),
    path("/<uuid:order_id>", order, name="order"),
    path("/<uuid:order_id>/pay", pay, name="order-pay"),
    path("/<uuid:order_id>/cancel", cancel, name="order-cancel"),
]
