"""The HTTP API of a design: the product's API, with the design's own way to decide a purchase.

The product serves sales and purchases on its event loop, which a design does not have, so they are Django views here.
"""

from __future__ import annotations

import json
import os
import time
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from gateway import outcomes, redis_clock, sales, views
from gateway.events import PurchaseRequested
from gateway.identity import derive_request_id as request_id_of
from gateway.sale_json import sale_json
from loadtest.designs import purchase_rows
from loadtest.designs.tasks import decide_in_task
from loadtest.designs.variants import DESIGNS
from seckill.web.problems import Problem, problem_responses
from seckill.web.tokens import user_of_request

DEADLINE_MS = 60_000
DESIGN = DESIGNS[os.environ["COMPARED_DESIGN"]]


@require_GET
def readyz(request: HttpRequest) -> HttpResponse:
    connection.ensure_connection()
    return JsonResponse({"ready": True})


@require_GET
@problem_responses
def list_sales(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"sales": [sale_json(view) for view in sales.list_sales()], "now_ms": redis_clock.now_ms()})


@require_GET
@problem_responses
def one_sale(request: HttpRequest, sale_id: int) -> HttpResponse:
    return JsonResponse(sale_json(sales.find_sale(sale_id)) | {"now_ms": redis_clock.now_ms()})


@csrf_exempt
@require_POST
@problem_responses
def purchases(request: HttpRequest, sale_id: int) -> HttpResponse:
    user_id = user_of_request(request)
    view = sales.find_sale(sale_id)
    now_ms = time.time_ns() // 1_000_000
    if not view.opens_at_ms <= now_ms < view.closes_at_ms:
        raise Problem(403, "not-open", "The sale is not open.", retry_after_s=1)
    key = request.headers.get("Idempotency-Key", "")
    quantity = int(json.loads(request.body or b"{}").get("quantity", 1))
    request_id = request_id_of(settings.SECRET_KEY, user_id, sale_id, key)
    purchase = PurchaseRequested(request_id, user_id, sale_id, view.sku, quantity, now_ms, now_ms + DEADLINE_MS)
    if DESIGN.in_task:
        decide_in_task.delay(purchase.envelope().encode().decode())
    else:
        assert DESIGN.decide is not None
        with purchase_rows.pool(settings.ENVIRONMENT.database_url).connection() as db:
            DESIGN.decide(db, settings.ENVIRONMENT.gate_redis_url, purchase)
    return JsonResponse({"request_id": str(request_id), "status_url": f"/api/v1/purchases/{request_id}"}, status=202)


@require_GET
@problem_responses
def purchase_status(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """Read from the product's projection, without the product's cache."""
    user_id = user_of_request(request)
    found = outcomes.find_outcomes([request_id]).get(request_id)
    if found is None:
        return JsonResponse({"request_id": str(request_id), "state": "QUEUED"})
    if found.user_id != user_id:
        raise Problem(404, "no-such-purchase", "You have no such request.")
    return JsonResponse(
        {
            "request_id": str(request_id),
            "state": found.state,
            "order_id": None if found.order_id is None else str(found.order_id),
            "may_buy_again": found.may_buy_again,
        }
    )


urlpatterns = [
    path("readyz", readyz),
    path("api/v1/sessions", views.sessions),
    path("api/v1/sales", list_sales),
    path("api/v1/sales/<int:sale_id>", one_sale),
    path("api/v1/sales/<int:sale_id>/ticket", views.ticket),
    path("api/v1/sales/<int:sale_id>/purchases", purchases),
    path("api/v1/purchases/<uuid:request_id>", purchase_status),
    path("api/v1/", include("orders.urls")),
]
