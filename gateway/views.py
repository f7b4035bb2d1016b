"""The gateway's HTTP API. Each view parses, calls one function and answers."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET, require_POST

from gateway import accepted_response, admission, desk, purchase_status, redis_clock, sales, signed_positions
from gateway import purchase as purchasing
from gateway.desk import Call
from gateway.door import door
from gateway.sale_json import sale_etag, sale_json
from seckill.resilience.shared_value import SharedValue
from seckill.web import tokens
from seckill.web.problems import Problem, problem_responses
from seckill.web.sign_in import demo_only
from seckill.web.tokens import user_of_request

USER_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,100}")
BODY_BYTES_MAX = 4096
READINESS_S = 1.0
"""How long an answer of /readyz is reused. The address is public, and each check waits for other servers."""
PRIVATE = {"Cache-Control": "no-store"}


@problem_responses
@demo_only
@require_POST
def sessions(request: HttpRequest) -> HttpResponse:
    """Demo sign-in: any name is accepted; there is no password."""
    user = desk.body(_read_body(request)).get("user")
    if not isinstance(user, str) or not USER_NAME.fullmatch(user):
        raise Problem(400, "bad-user", "`user` must be 1 to 100 letters, digits or . _ @ + -")
    return _json_response({"user": user, "token": tokens.issue_token(user)}, status=201, headers=PRIVATE)


@require_GET
@problem_responses
def all_sales(request: HttpRequest) -> HttpResponse:
    views = sales.list_sales()
    return _etag_response(
        request, "-".join(map(sale_etag, views)) or "none", {"sales": [sale_json(view) for view in views]}
    )


@require_GET
@problem_responses
def one_sale(request: HttpRequest, sale_id: int) -> HttpResponse:
    view = sales.find_sale(sale_id)
    return _etag_response(request, sale_etag(view), sale_json(view))


@require_POST
@problem_responses
def ticket(request: HttpRequest, sale_id: int) -> HttpResponse:
    user_id = user_of_request(request)
    text, expires_at_ms = purchasing.issue_ticket(sales.find_sale(sale_id), user_id)
    return _json_response({"ticket": text, "expires_at_ms": expires_at_ms}, status=201, headers=PRIVATE)


@require_POST
@problem_responses
def purchases(request: HttpRequest, sale_id: int) -> HttpResponse:
    """202 once the broker has the request. The same key gets the same answer."""
    headers = request.META
    call = Call(
        sale_id, "", headers.get("HTTP_AUTHORIZATION", ""), headers.get("HTTP_IDEMPOTENCY_KEY", ""),
        headers.get("HTTP_PURCHASE_TICKET", ""), headers.get("REMOTE_ADDR", ""),
        headers.get("HTTP_X_FORWARDED_FOR", ""), headers.get("HTTP_TRACEPARENT"), _read_body(request),
    )  # fmt: skip
    accepted = purchasing.buy(call)
    return HttpResponse(
        accepted.content, content_type="application/json", status=202, headers=_poll_headers(accepted.poll_after_ms)
    )


@require_GET
@problem_responses
def purchase(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """The status of one's own request. Another user's request is answered like an unknown one."""
    user_id = user_of_request(request)
    signed = signed_positions.verify_position(request_id, request.GET.get("place", ""))
    status = purchase_status.fetch_status(request_id, signed)
    if status is None or status.user_id != user_id:
        raise Problem(404, "no-such-purchase", "You have no such request.")
    estimate = status.estimate
    is_settled = status.outcome is not None and status.outcome.is_final
    after_ms = accepted_response.poll_after_ms(estimate, is_settled=is_settled)
    return _json_response(status.body(estimate), headers=_poll_headers(after_ms))


@require_GET
def readyz(request: HttpRequest) -> HttpResponse:
    """Ready to sell: database, Redis and broker answer."""
    missing = _missing.get()
    if missing is None:
        missing = ["not checked yet"]
    return _json_response({"ready": not missing, "missing": missing}, status=503 if missing else 200)


def _find_missing() -> list[str]:
    missing = []
    for name, check in (
        ("database", _check_database),
        ("redis", admission.redis_connection().ping),
        ("broker", door.behind.check),
    ):
        try:
            check()
        except Exception as fault:
            missing.append(f"{name}: {type(fault).__name__}")
    return missing


_missing = SharedValue(_find_missing, READINESS_S)


def _check_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _json_response(content: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> HttpResponse:
    return HttpResponse(_encode(content), content_type="application/json", status=status, headers=headers)


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _etag_response(request: HttpRequest, tag: str, content: dict[str, Any]) -> HttpResponse:
    """The ETag is weak because the time in the body moves on while the sales stay the same."""
    etag = f'W/"{tag}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache", "X-Now-Ms": str(redis_clock.now_ms())}
    known = {each.strip() for each in str(request.META.get("HTTP_IF_NONE_MATCH", "")).split(",")}
    if etag in known:
        return HttpResponse(status=304, headers=headers)
    return _json_response(content | {"now_ms": redis_clock.now_ms()}, headers=headers)


def _read_body(request: HttpRequest) -> bytes:
    if "HTTP_TRANSFER_ENCODING" in request.META:  # WSGI shows a chunked body as empty, and an empty body is valid
        raise Problem(411, "length-required", "Send a Content-Length; chunked bodies are not supported.")
    length = str(request.META.get("CONTENT_LENGTH") or "0")
    if length.isdigit() and int(length) > BODY_BYTES_MAX:
        raise Problem(413, "body-too-large", f"A body is limited to {BODY_BYTES_MAX} bytes.")
    return request.body


def _poll_headers(poll_after_ms: int) -> dict[str, str]:
    return PRIVATE | {"X-Poll-After-Ms": str(poll_after_ms)}
