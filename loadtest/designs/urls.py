"""HTTP of a peer: the product's contract; the purchase itself is the design's."""

from __future__ import annotations

import json
import os
import time
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from gateway import outcomes, sales, views
from gateway.events import PurchaseRequested
from gateway.identity import request_id as request_id_of
from loadtest.peers import books
from loadtest.peers.designs import DESIGNS
from loadtest.peers.tasks import decide_later
from seckill.problems import Problem, answers_problems
from seckill.tokens import user_of

DEADLINE_MS = 60_000
DESIGN = DESIGNS[os.environ["PEER_DESIGN"]]


@csrf_exempt
@require_POST
@answers_problems
def purchases(request: HttpRequest, sale_id: int) -> HttpResponse:
    user_id = user_of(request)
    view = sales.find(sale_id)
    now_ms = time.time_ns() // 1_000_000
    if not view.opens_at_ms <= now_ms < view.closes_at_ms:
        raise Problem(403, "not-open", "The sale is not open.", retry_after_s=1)
    key = request.headers.get("Idempotency-Key", "")
    quantity = int(json.loads(request.body or b"{}").get("quantity", 1))
    request_id = request_id_of(settings.SECRET_KEY, user_id, sale_id, key)
    wanted = PurchaseRequested(request_id, user_id, sale_id, view.sku, quantity, now_ms, now_ms + DEADLINE_MS)
    if DESIGN.later:
        decide_later.delay(wanted.envelope().encode().decode())
    else:
        assert DESIGN.decide is not None
        with books.pool(settings.ENVIRONMENT.database_url).connection() as db:
            DESIGN.decide(db, settings.ENVIRONMENT.gate_redis_url, wanted)
    return JsonResponse({"request_id": str(request_id), "status_url": f"/api/v1/purchases/{request_id}"}, status=202)


@require_GET
@answers_problems
def purchase(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """From the same projection as the product's, without its cache."""
    user_id = user_of(request)
    found = outcomes.find(request_id)
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
    path("readyz", views.readyz),
    path("api/v1/sessions", views.sessions),
    path("api/v1/sales", views.all_sales),
    path("api/v1/sales/<int:sale_id>", views.one_sale),
    path("api/v1/sales/<int:sale_id>/ticket", views.ticket),
    path("api/v1/sales/<int:sale_id>/purchases", purchases),
    path("api/v1/purchases/<uuid:request_id>", purchase),
    path("api/v1/", include("orders.urls")),
]
