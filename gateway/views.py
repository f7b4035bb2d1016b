"""The part of the gateway's HTTP API that Django serves. Each view parses, calls one function and answers."""

from __future__ import annotations

import json
import re
from typing import Any

from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET, require_POST

from gateway import admission, from_threads, sales
from gateway.admission_script import SINCE_KEY
from gateway.http import BODY_BYTES_MAX
from gateway.purchase import issue_ticket, parse_json_object
from seckill.resilience.admission_keys import admission_key
from seckill.resilience.redis_servers import name_of_use
from seckill.resilience.shared_value import SharedValue
from seckill.web import tokens
from seckill.web.problems import Problem, problem_responses
from seckill.web.sign_in import demo_only
from seckill.web.tokens import user_of_request

USER_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,100}")
READINESS_S = 1.0
"""How long an answer of /readyz is reused. The address is public, and each check waits for other servers."""
PRIVATE = {"Cache-Control": "no-store"}


@problem_responses
@demo_only
@require_POST
def sessions(request: HttpRequest) -> HttpResponse:
    """Demo sign-in: any name is accepted; there is no password."""
    user = parse_json_object(_read_body(request)).get("user")
    if not isinstance(user, str) or not USER_NAME.fullmatch(user):
        raise Problem(400, "bad-user", "`user` must be 1 to 100 letters, digits or . _ @ + -")
    return _json_response({"user": user, "token": tokens.issue_token(user)}, status=201, headers=PRIVATE)


@require_POST
@problem_responses
def ticket(request: HttpRequest, sale_id: int) -> HttpResponse:
    user_id = user_of_request(request)
    text, expires_at_ms = issue_ticket(sales.find_sale(sale_id), user_id)
    return _json_response({"ticket": text, "expires_at_ms": expires_at_ms}, status=201, headers=PRIVATE)


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
        (name_of_use(settings.ENVIRONMENT, "admission"), _check_redis),
        ("broker", _check_queue),
    ):
        try:
            check()
        except Exception as fault:
            missing.append(f"{name}: {type(fault).__name__}")
    return missing


_missing = SharedValue(_find_missing, READINESS_S)


def _check_queue() -> None:
    if not from_threads.is_queue_connected():
        raise ConnectionError("the queue has not been reached yet")


def _check_redis() -> None:
    """The server that admits; in a cluster a PING would also ask the others."""
    admission.redis_connection().exists(admission_key(SINCE_KEY))


def _check_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _json_response(content: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> HttpResponse:
    return HttpResponse(_encode(content), content_type="application/json", status=status, headers=headers)


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _read_body(request: HttpRequest) -> bytes:
    if "HTTP_TRANSFER_ENCODING" in request.META:  # WSGI shows a chunked body as empty, and an empty body is valid
        raise Problem(411, "length-required", "Send a Content-Length; chunked bodies are not supported.")
    length = str(request.META.get("CONTENT_LENGTH") or "0")
    if length.isdigit() and int(length) > BODY_BYTES_MAX:
        raise Problem(413, "body-too-large", f"A body is limited to {BODY_BYTES_MAX} bytes.")
    return request.body
