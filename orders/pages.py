"""Pages of orders: what a buyer owes and what he got; to pay, to cancel, and the history of each. One's own only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from orders import asking
from orders.lifecycle import State
from orders.models import Order, Payment
from seckill.pages import for_buyers, page


class Moment(NamedTuple):
    at: datetime
    what: str  # a state of the order, or what happened to money


@require_GET
@page
@for_buyers
def orders(request: HttpRequest, user_id: str) -> HttpResponse:
    listed = asking.page_of(user_id, request.GET.get("after", ""))
    told = {"orders": [_shown(order) for order in listed.orders], "next": listed.next, "now_ms": _now_ms()}
    return render(request, "orders/orders.html", told)


@require_GET
@page
@for_buyers
def order(request: HttpRequest, user_id: str, order_id: UUID) -> HttpResponse:
    found = asking.one_of(user_id, order_id)
    told = {"order": _shown(found), "history": history(found), "now_ms": _now_ms()}
    return render(request, "orders/order.html", told)


@require_POST
@page
@for_buyers
def pay(request: HttpRequest, user_id: str, order_id: UUID) -> HttpResponse:
    found = asking.one_of(user_id, order_id)
    asking.pay(found)
    return _to_purchase(found, "?paying=1")


@require_POST
@page
@for_buyers
def cancel(request: HttpRequest, user_id: str, order_id: UUID) -> HttpResponse:
    found = asking.one_of(user_id, order_id)
    asking.cancel(found)
    return _to_purchase(found)


def history(order: Order) -> Sequence[Moment]:
    """Every change of state, and every movement of money, in order."""
    moments = [
        Moment(change.at, "placed" if change.after == State.PENDING_PAYMENT else change.after)
        for change in order.transitions.all()
    ]
    for payment in order.payments.all():
        moments += _of_payment(payment)
    return sorted(moments)


def _of_payment(payment: Payment) -> list[Moment]:
    known = [
        (payment.opened_at, "payment_begun"),
        (payment.captured_at, "late_money" if payment.late else "captured"),
        (payment.refunded_at, "given_back"),
    ]
    return [Moment(at, what) for at, what in known if at is not None]


def _to_purchase(order: Order, query: str = "") -> HttpResponse:
    """What becomes of it is shown there, live."""
    return HttpResponseRedirect(reverse("purchase", args=[order.request_id]) + query, status=303)


def _shown(order: Order) -> dict[str, object]:
    return {
        "id": order.id,
        "request_id": order.request_id,
        "sku": order.sku,
        "quantity": order.quantity,
        "amount": order.amount,
        "state": order.state,
        "placed_at": order.placed_at,
        "pay_before_ms": int(order.pay_before.timestamp() * 1000),
    }


def _now_ms() -> int:
    return int(timezone.now().timestamp() * 1000)


urlpatterns = [
    path("", orders, name="orders"),
    path("/<uuid:order_id>", order, name="order"),
    path("/<uuid:order_id>/pay", pay, name="order-pay"),
    path("/<uuid:order_id>/cancel", cancel, name="order-cancel"),
]
