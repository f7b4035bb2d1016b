"""HTTP of the gateway: parse, call one verb, answer."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from gateway import admission, answers, buying, desk, following, places, sales
from gateway.desk import Call
from gateway.door import door
from seckill import tokens
from seckill.cached import Cached
from seckill.problems import Problem, answers_problems
from seckill.signing_in import demo_only
from seckill.tokens import user_of

USER_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,100}")
MOST_BODY = 4096
HEALTH_S = 1.0
"""So long an answer about our health is given again: it is public, and asking for it waits for others."""
PRIVATE = {"Cache-Control": "no-store"}


@csrf_exempt
@answers_problems
@demo_only
@require_POST
def sessions(request: HttpRequest) -> HttpResponse:
    """Demo sign-in: any name is accepted, without a password."""
    user = desk.body(_content(request)).get("user")
    if not isinstance(user, str) or not USER_NAME.fullmatch(user):
        raise Problem(400, "bad-user", "`user` is 1 to 100 of letters, digits and . _ @ + -")
    return _answer({"user": user, "token": tokens.issue(user)}, status=201, headers=PRIVATE)


@require_GET
@answers_problems
def all_sales(request: HttpRequest) -> HttpResponse:
    views = sales.listed()
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
    headers = request.META
    call = Call(
        sale_id, "", headers.get("HTTP_AUTHORIZATION", ""), headers.get("HTTP_IDEMPOTENCY_KEY", ""),
        headers.get("HTTP_PURCHASE_TICKET", ""), headers.get("REMOTE_ADDR", ""),
        headers.get("HTTP_X_FORWARDED_FOR", ""), headers.get("HTTP_TRACEPARENT"), _content(request),
    )  # fmt: skip
    accepted = buying.buy(call)
    return HttpResponse(
        accepted.content, content_type="application/json", status=202, headers=_private(accepted.poll_after_ms)
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
    is_settled = followed.shown is not None and followed.shown.is_final
    after_ms = answers.poll_after_ms(estimate, is_settled=is_settled)
    return _answer(followed.body(estimate), headers=_private(after_ms))


@require_GET
def readyz(request: HttpRequest) -> HttpResponse:
    """Able to sell: database, Redis and broker answer."""
    missing = _missing.get()
    if missing is None:
        missing = ["not known yet"]
    return _answer({"ready": not missing, "missing": missing}, status=503 if missing else 200)


def _look_for_missing() -> list[str]:
    missing = []
    for name, check in (
        ("database", _ask_database),
        ("redis", admission.redis().ping),
        ("broker", door.behind.check),
    ):
        try:
            check()
        except Exception as fault:
            missing.append(f"{name}: {type(fault).__name__}")
    return missing


_missing = Cached(_look_for_missing, HEALTH_S)


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


def _content(request: HttpRequest) -> bytes:
    """What is sent along, as it came."""
    if "HTTP_TRANSFER_ENCODING" in request.META:  # WSGI shows such a body as an empty one, and empty has a meaning
        raise Problem(411, "length-required", "Say how long the body is, in Content-Length.")
    length = str(request.META.get("CONTENT_LENGTH") or "0")
    if length.isdigit() and int(length) > MOST_BODY:
        raise Problem(413, "body-too-large", f"A body has at most {MOST_BODY} bytes.")
    return request.body


def _private(poll_after_ms: int) -> dict[str, str]:
    return PRIVATE | {"X-Poll-After-Ms": str(poll_after_ms)}
