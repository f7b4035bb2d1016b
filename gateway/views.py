"""HTTP of the gateway: parse, call one verb, answer."""

from __future__ import annotations

import json
import random
import re
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from gateway import admission, buying, following, places, sales, submissions
from gateway.addresses import client_address
from gateway.backlog import Estimate
from gateway.events import MOST_UNITS
from seckill import tokens
from seckill.problems import Problem, answers_problems
from seckill.tokens import user_of

USER_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,100}")
KEY = re.compile(r"[\x21-\x7e]{1,64}")
MOST_BODY = 4096
MOST_TICKET = 400
POLL_MS, LONGEST_POLL_MS, SETTLED_POLL_MS = 500, 5_000, 10_000
PRIVATE = {"Cache-Control": "no-store"}


@csrf_exempt
@require_POST
@answers_problems
def sessions(request: HttpRequest) -> HttpResponse:
    """Demo sign-in: whoever names himself is he."""
    user = _body(request).get("user")
    if not isinstance(user, str) or not USER_NAME.fullmatch(user):
        raise Problem(400, "bad-user", "`user` is 1 to 100 of letters, digits and . _ @ + -")
    return _answer({"user": user, "token": tokens.issue(user)}, status=201, headers=PRIVATE)


@require_GET
@answers_problems
def all_sales(request: HttpRequest) -> HttpResponse:
    views = sales.views().values()
    shown = [sales.shown(view) for view in views]
    return _tagged(request, "-".join(map(sales.tag, views)) or "none", {"sales": shown})


@require_GET
@answers_problems
def one_sale(request: HttpRequest, sale_id: int) -> HttpResponse:
    view = sales.find(sale_id)
    return _tagged(request, sales.tag(view), sales.shown(view))


@csrf_exempt
@require_POST
@answers_problems
def ticket(request: HttpRequest, sale_id: int) -> HttpResponse:
    """The way in, for this user, from the opening on."""
    user_id = user_of(request)
    text, expires_at_ms = buying.ticket_for(sales.find(sale_id), user_id)
    return _answer({"ticket": text, "expires_at_ms": expires_at_ms}, status=201, headers=PRIVATE)


@csrf_exempt
@require_POST
@answers_problems
def purchases(request: HttpRequest, sale_id: int) -> HttpResponse:
    """202 once the broker has the request; the same key gets the same answer."""
    user_id = user_of(request)
    key = str(request.META.get("HTTP_IDEMPOTENCY_KEY", ""))
    if not KEY.fullmatch(key):
        raise Problem(400, "bad-idempotency-key", "Send an Idempotency-Key of 1 to 64 printable characters.")
    view = sales.find(sale_id)
    quantity = _body(request).get("quantity", 1)
    if type(quantity) is not int or not 0 < quantity <= MOST_UNITS:
        raise Problem(400, "bad-quantity", "`quantity` is a whole number from 1 on.")
    ticket = str(request.META.get("HTTP_PURCHASE_TICKET", ""))[:MOST_TICKET]
    trace = request.META.get("HTTP_TRACEPARENT")
    accepted = buying.buy(view, buying.Call(user_id, key, quantity, ticket, client_address(request.META), trace))
    status_url = f"/api/v1/purchases/{accepted.request_id}"
    place, estimate = accepted.place, accepted.estimate
    return _answer(
        {
            "request_id": str(accepted.request_id),
            "status_url": f"{status_url}?place={accepted.signed_place}",
            "events_url": f"{settings.ENVIRONMENT.live_url}{status_url}/events?place={accepted.signed_place}",
            "deadline_ms": accepted.deadline_ms,
            "topic": place.topic,
            "partition": place.partition,
            "offset": place.offset,
            "position_estimate": None if estimate is None else estimate.ahead,
            "eta_ms": None if estimate is None else estimate.wait_ms,
        },
        status=202,
        headers=PRIVATE | _poll_after(estimate),
    )


@require_GET
@answers_problems
def purchase(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """What became of it. A request nobody has decided yet is in the queue; somebody else's is not found."""
    user_id = user_of(request)
    followed = following.follow(request_id, places.opened(request_id, request.GET.get("place", "")))
    if followed is None or followed.user_id != user_id:
        raise Problem(404, "no-such-purchase", "You have no such request.")
    estimate = followed.estimate
    after = _poll_after(estimate, is_settled=followed.shown is not None and followed.shown.is_final)
    return _answer(followed.body(estimate), headers=PRIVATE | after)


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
    return _answer({"ready": not missing, "missing": missing}, status=503 if missing else 200)


def _answer(content: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> HttpResponse:
    return HttpResponse(_encode(content), content_type="application/json", status=status, headers=headers)


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _tagged(request: HttpRequest, tag: str, content: dict[str, Any]) -> HttpResponse:
    """Weak: the time in the body goes on, what it is about has not changed."""
    entity_tag = f'W/"{tag}"'
    headers = {"ETag": entity_tag, "Cache-Control": "no-cache", "X-Now-Ms": str(sales.now_ms())}
    asked = {each.strip() for each in str(request.META.get("HTTP_IF_NONE_MATCH", "")).split(",")}
    if entity_tag in asked:
        return HttpResponse(status=304, headers=headers)
    return _answer(content | {"now_ms": sales.now_ms()}, headers=headers)


def _body(request: HttpRequest) -> dict[str, Any]:
    if "HTTP_TRANSFER_ENCODING" in request.META:  # WSGI shows such a body as an empty one, and empty has a meaning
        raise Problem(411, "length-required", "Say how long the body is, in Content-Length.")
    length = str(request.META.get("CONTENT_LENGTH") or "0")
    if length.isdigit() and int(length) > MOST_BODY:
        raise Problem(413, "body-too-large", f"A body has at most {MOST_BODY} bytes.")
    try:
        body = json.loads(request.body or b"{}")
    except (ValueError, RecursionError) as error:
        raise Problem(400, "bad-json", "The body is no JSON.") from error
    if not isinstance(body, dict):
        raise Problem(400, "bad-json", "The body is no JSON object.")
    return body


def _poll_after(estimate: Estimate | None, *, is_settled: bool = False) -> dict[str, str]:
    """Sooner the nearer his turn is, and spread, so that a crowd does not come back all at once."""
    wait_ms = POLL_MS if estimate is None or estimate.wait_ms is None else estimate.wait_ms // 3
    wait_ms = SETTLED_POLL_MS if is_settled else min(max(POLL_MS, wait_ms), LONGEST_POLL_MS)
    return {"X-Poll-After-Ms": str(int(wait_ms * random.uniform(0.75, 1.25)))}
