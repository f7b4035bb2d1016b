"""HTTP API of orders. A buyer reaches only their own orders; another buyer's order is reported as missing."""

from __future__ import annotations

import json
import time
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET, require_POST

from orders import buyer_actions, payment_attempts
from orders.models import Order
from orders.payments import signature
from seckill.web.problems import Problem, problem_responses
from seckill.web.tokens import user_of_request


@require_GET
@problem_responses
def orders(request: HttpRequest) -> HttpResponse:
    page = buyer_actions.list_orders(user_of_request(request), request.GET.get("after", ""))
    more = {"next": page.next} if page.next else {}
    return JsonResponse({"orders": [_order_fields(order) for order in page.orders]} | more)


@require_GET
@problem_responses
def order(request: HttpRequest, order_id: UUID) -> HttpResponse:
    return JsonResponse(_order_fields(buyer_actions.get_order(user_of_request(request), order_id)))


@require_POST
@problem_responses
def pay(request: HttpRequest, order_id: UUID) -> HttpResponse:
    payment = buyer_actions.start_payment(buyer_actions.get_order(user_of_request(request), order_id))
    return JsonResponse({"payment_id": str(payment.id), "state": "open"}, status=202)


@require_POST
@problem_responses
def cancel(request: HttpRequest, order_id: UUID) -> HttpResponse:
    user_id = user_of_request(request)
    buyer_actions.cancel_order(buyer_actions.get_order(user_id, order_id))
    return JsonResponse(_order_fields(buyer_actions.get_order(user_id, order_id)), status=202)


@require_POST
@problem_responses
def callback(request: HttpRequest) -> HttpResponse:
    """A callback of the provider. 404 for an unknown payment makes it retry, because our row may be committed later."""
    header = request.headers.get(signature.HEADER, "")
    if not signature.is_genuine(settings.ENVIRONMENT.provider_secret, request.body, header, int(time.time())):
        raise Problem(401, "bad-signature", "The callback is not signed by the provider, or is too old.")
    try:
        content: dict[str, Any] = json.loads(request.body)
        callback_id, payment_id, kind = str(content["id"]), UUID(content["payment"]), str(content["kind"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Problem(400, "bad-callback", "The callback must be a JSON object with id, payment and kind.") from error
    with buyer_actions.provider_faults_as_problems():
        if not payment_attempts.is_callback_confirmed(payment_id, kind):
            raise Problem(401, "not-confirmed", "The provider does not confirm this callback.")
    if not payment_attempts.handle_callback(callback_id[:100], payment_id, kind[:20]):
        raise Problem(404, "unknown-payment", "This payment was never started here.")
    return JsonResponse({"received": True})


def _order_fields(order: Order) -> dict[str, Any]:
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
