"""HTTP of the gateway: parse, call one verb, answer."""

from __future__ import annotations

import hashlib
import json
import re
import time
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from gateway import admission, sales, submissions
from gateway.admission import Verdict
from gateway.events import MOST_UNITS, PurchaseRequested
from gateway.identity import request_id as derive_request_id
from gateway.models import Outcome
from inventory.events import SaleView
from seckill import tokens
from seckill.problems import Problem, answers_problems
from seckill.tokens import user_of

USER_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,100}")
KEY = re.compile(r"[\x21-\x7e]{1,64}")
MOST_BODY = 4096


@csrf_exempt
@require_POST
@answers_problems
def sessions(request: HttpRequest) -> HttpResponse:
    """Demo sign-in: whoever names himself is he."""
    user = _body(request).get("user")
    if not isinstance(user, str) or not USER_NAME.fullmatch(user):
        raise Problem(400, "bad-user", "`user` is 1 to 100 of letters, digits and . _ @ + -")
    return JsonResponse({"user": user, "token": tokens.issue(user)}, status=201)


@require_GET
@answers_problems
def all_sales(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"sales": [_shown(view) for view in sales.views().values()], "now_ms": _now_ms()})


@require_GET
@answers_problems
def one_sale(request: HttpRequest, sale_id: int) -> HttpResponse:
    view = sales.find(sale_id)
    tag = f'"{view.stock_version}-{view.state}"'
    if request.headers.get("If-None-Match") == tag:
        return HttpResponse(status=304, headers={"ETag": tag})
    return JsonResponse(_shown(view) | {"now_ms": _now_ms()}, headers={"ETag": tag})


@csrf_exempt
@require_POST
@answers_problems
def purchases(request: HttpRequest, sale_id: int) -> HttpResponse:
    """202 once the broker has the request; the same key gets the same answer."""
    user_id = user_of(request)
    key = request.headers.get("Idempotency-Key", "")
    if not KEY.fullmatch(key):
        raise Problem(400, "bad-idempotency-key", "Send an Idempotency-Key of 1 to 64 printable characters.")
    view = sales.find(sale_id)
    quantity = _body(request).get("quantity", 1)
    if type(quantity) is not int or not 0 < quantity <= MOST_UNITS:
        raise Problem(400, "bad-quantity", "`quantity` is a whole number from 1 on.")
    request_id = derive_request_id(settings.SECRET_KEY, user_id, sale_id, key)
    admitted = admission.admit(
        request_id, _fingerprint(view.sku, quantity), user_id, _address(request), view.opens_at_ms, view.closes_at_ms
    )
    _refuse_unless_admitted(admitted.verdict, view, admitted.now_ms)
    place = submissions.submit(
        PurchaseRequested(
            request_id, user_id, sale_id, view.sku, quantity, admitted.admitted_at_ms, admitted.deadline_ms
        )
    )
    return JsonResponse(
        {
            "request_id": str(request_id),
            "status_url": f"/api/v1/purchases/{request_id}",
            "deadline_ms": admitted.deadline_ms,
            "partition": place.partition,
            "offset": place.offset,
        },
        status=202,
    )


@require_GET
@answers_problems
def purchase(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """What became of it. A request nobody has decided yet is in the queue; somebody else's is not found."""
    outcome = Outcome.objects.filter(request_id=request_id).first()
    if outcome is None or outcome.user_id != user_of(request):
        if outcome is None and _is_queued(request_id):
            return JsonResponse({"request_id": str(request_id), "state": "QUEUED"}, headers=_poll_after())
        raise Problem(404, "no-such-purchase", "You have no such request.")
    return JsonResponse(
        {
            "request_id": str(request_id),
            "state": outcome.state,
            "order_id": None if outcome.order_id is None else str(outcome.order_id),
            "pay_before_ms": outcome.pay_before_ms,
            "may_buy_again": outcome.may_buy_again,
        },
        headers=_poll_after(),
    )


@require_GET
def readyz(request: HttpRequest) -> HttpResponse:
    """Able to sell: database, Redis and broker answer."""
    missing = []
    for name, check in (
        ("database", _ask_database),
        ("redis", admission.redis().ping),
        ("broker", submissions.producer),
    ):
        try:
            check()
        except Exception as fault:
            missing.append(f"{name}: {type(fault).__name__}")
    return JsonResponse({"ready": not missing, "missing": missing}, status=503 if missing else 200)


def _refuse_unless_admitted(verdict: Verdict, view: SaleView, now_ms: int) -> None:
    match verdict:
        case Verdict.ADMITTED | Verdict.KNOWN:
            if view.state == "paused" and verdict is Verdict.ADMITTED:
                raise Problem(503, "sale-paused", "The sale is paused.", retry_after_s=2)
        case Verdict.OTHER_BODY:
            raise Problem(422, "key-reused", "This Idempotency-Key was used for another request.")
        case Verdict.NOT_OPEN_YET:
            wait_s = (view.opens_at_ms - now_ms) / 1000
            raise Problem(
                403, "not-open-yet", "The sale has not begun.", retry_after_s=wait_s, opens_at_ms=view.opens_at_ms
            )
        case Verdict.CLOSED:
            raise Problem(410, "sale-closed", "The sale is over.")
        case Verdict.TOO_MANY:
            raise Problem(429, "too-many-requests", "Slow down.", retry_after_s=1)


def _is_queued(request_id: UUID) -> bool:
    return bool(admission.redis().exists(f"admission:request:{request_id}"))


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _body(request: HttpRequest) -> dict[str, Any]:
    if int(request.headers.get("Content-Length") or 0) > MOST_BODY:
        raise Problem(413, "body-too-large", f"A body has at most {MOST_BODY} bytes.")
    try:
        body = json.loads(request.body or b"{}")
    except (ValueError, RecursionError) as error:
        raise Problem(400, "bad-json", "The body is no JSON.") from error
    if not isinstance(body, dict):
        raise Problem(400, "bad-json", "The body is no JSON object.")
    return body


def _fingerprint(sku: str, quantity: int) -> str:
    return hashlib.sha256(f"{sku}:{quantity}".encode()).hexdigest()[:16]


def _address(request: HttpRequest) -> str:
    """The client's own address; X-Forwarded-For only from a proxy we trust."""
    peer = str(request.META.get("REMOTE_ADDR", ""))
    trusted = {proxy.strip() for proxy in settings.ENVIRONMENT.trusted_proxies.split(",") if proxy.strip()}
    if peer in trusted:
        forwarded = request.headers.get("X-Forwarded-For", "").split(",")[0].strip()
        return forwarded[:45] or peer
    return peer


def _shown(view: SaleView) -> dict[str, Any]:
    return {name: getattr(view, name) for name in SaleView.__slots__}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _poll_after() -> dict[str, str]:
    """Spread, so that a crowd does not come back all at once."""
    return {"X-Poll-After-Ms": str(500 + time.time_ns() % 500)}
