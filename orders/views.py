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

from orders import asking, paying
from orders.models import Order
from orders.payments import signature
from seckill.problems import Problem, answers_problems
from seckill.tokens import user_of


@require_GET
@answers_problems
def orders(request: HttpRequest) -> HttpResponse:
    listed = asking.page_of(user_of(request), request.GET.get("after", ""))
    more = {"next": listed.next} if listed.next else {}
    return JsonResponse({"orders": [_shown(order) for order in listed.orders]} | more)


@require_GET
@answers_problems
def order(request: HttpRequest, order_id: UUID) -> HttpResponse:
    return JsonResponse(_shown(asking.one_of(user_of(request), order_id)))


@csrf_exempt
@require_POST
@answers_problems
def pay(request: HttpRequest, order_id: UUID) -> HttpResponse:
    payment = asking.pay(asking.one_of(user_of(request), order_id))
    return JsonResponse({"payment_id": str(payment.id), "state": "open"}, status=202)


@csrf_exempt
@require_POST
@answers_problems
def cancel(request: HttpRequest, order_id: UUID) -> HttpResponse:
    user_id = user_of(request)
    asking.cancel(asking.one_of(user_id, order_id))
    return JsonResponse(_shown(asking.one_of(user_id, order_id)), status=202)


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
    with asking.at_the_provider():
        if not paying.is_confirmed(payment_id, kind):
            raise Problem(401, "not-confirmed", "The provider, asked, does not confirm this.")
    if not paying.told(callback_id[:100], payment_id, kind[:20]):
        raise Problem(404, "unknown-payment", "No such payment was ever begun here.")
    return JsonResponse({"received": True})


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
