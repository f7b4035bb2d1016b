"""HTTP of orders: parse, call one verb, answer. One's own orders only: somebody else's is not found."""

from __future__ import annotations

import json
import time
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from orders import cancelling, paying
from orders.models import Order
from orders.payments import signature
from orders.payments.provider import ProviderDown
from seckill.problems import Problem, answers_problems
from seckill.tokens import user_of

PAGE = 100


@require_GET
@answers_problems
def orders(request: HttpRequest) -> HttpResponse:
    mine = Order.objects.filter(user_id=user_of(request)).order_by("-placed_at")[:PAGE]
    return JsonResponse({"orders": [_shown(order) for order in mine]})


@require_GET
@answers_problems
def order(request: HttpRequest, order_id: UUID) -> HttpResponse:
    return JsonResponse(_shown(_mine(request, order_id)))


@csrf_exempt
@require_POST
@answers_problems
def pay(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Starts an attempt at the provider; what becomes of it the provider will say."""
    try:
        payment = paying.begin(_mine(request, order_id))
    except ProviderDown as fault:
        raise Problem(503, "provider-unavailable", str(fault), retry_after_s=2) from fault
    if payment is None:
        raise Problem(409, "nothing-to-pay", "The order is paid already, or has ended.")
    return JsonResponse({"payment_id": str(payment.id), "state": "open"}, status=202)


@csrf_exempt
@require_POST
@answers_problems
def cancel(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """202: it ends, and the units go back; when they are, the purchase says so."""
    try:
        cancelled = cancelling.cancel(_mine(request, order_id))
    except ProviderDown as fault:
        raise Problem(503, "provider-unavailable", str(fault), retry_after_s=2) from fault
    if not cancelled:
        raise Problem(409, "not-cancellable", "The order is paid already, or has ended.")
    return JsonResponse(_shown(_mine(request, order_id)), status=202)


@csrf_exempt
@require_POST
@answers_problems
def callback(request: HttpRequest) -> HttpResponse:
    """The provider tells. An unknown payment is 404, so that it tries again: our row may come a moment later."""
    header = request.headers.get(signature.HEADER, "")
    if not signature.is_genuine(settings.ENVIRONMENT.provider_secret, request.body, header, int(time.time())):
        raise Problem(401, "bad-signature", "The callback is not signed by the provider, or too old.")
    try:
        said: dict[str, Any] = json.loads(request.body)
        callback_id, payment_id, kind = str(said["id"]), UUID(said["payment"]), str(said["kind"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Problem(400, "bad-callback", "The callback is no JSON object with id, payment and kind.") from error
    if not paying.told(callback_id[:100], payment_id, kind[:20]):
        raise Problem(404, "unknown-payment", "No such payment was ever begun here.")
    return JsonResponse({"received": True})


def _mine(request: HttpRequest, order_id: UUID) -> Order:
    found = Order.objects.filter(id=order_id, user_id=user_of(request)).first()
    if found is None:
        raise Problem(404, "no-such-order", "You have no such order.")
    return found


def _shown(order: Order) -> dict[str, Any]:
    return {
        "id": str(order.id),
        "request_id": str(order.request_id),
        "sale_id": order.sale_id,
        "sku": order.sku,
        "quantity": order.quantity,
        "amount": order.amount,
        "state": order.state,
        "placed_at_ms": int(order.placed_at.timestamp() * 1000),
        "pay_before_ms": int(order.pay_before.timestamp() * 1000),
    }
