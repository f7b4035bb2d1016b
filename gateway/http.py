"""Shell: HTTP for the routes that the event loop serves itself: read a request within limits, answer with the headers
that Django's middleware would set.

Django serves all other addresses (gateway/django_threads.py) with the middleware of the settings. A middleware added
there does not see these routes; tests/unit/gateway/test_http.py names the ones whose effect is repeated here.
"""

from __future__ import annotations

import json
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port, validate_host
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.security import SecurityMiddleware

from gateway.time_limit import TimeLimit
from seckill.web.client_address import is_trusted_peer
from seckill.web.problems import PROBLEM_CONTENT_TYPE, Problem, problem_body
from seckill.web.request_limits import (
    ADDRESS_BYTES_MAX,
    BODY_SECONDS_MAX,
    body_timeout,
    header_problem,
    unreadable_header,
)

Headers = list[tuple[str, str]]

BODY_BYTES_MAX = 4096
QUERY_FIELDS_MAX = 100
BODY_LIMIT = TimeLimit(BODY_SECONDS_MAX)
JSON = ("content-type", "application/json")


class Request:
    """A request whose headers are within the limits. Header names are in lower case; repeated headers are joined.

    `response_headers`: what its response has beside its own headers.
    """

    __slots__ = ("headers", "method", "path", "peer", "protocol", "response_headers", "scope")

    def __init__(self, scope: Any, protocol: Any, headers: Headers) -> None:
        self.scope, self.protocol = scope, protocol
        self.method, self.path = scope.method.upper(), scope.path
        self.peer = scope.client.rpartition(":")[0].strip("[]")
        self.headers = join_headers(headers)
        self.response_headers: Headers = []

    async def body(self) -> bytes:
        """Raises `Problem`, or `granian.rsgi.ProtocolClosed` if the client disconnects first."""
        if "transfer-encoding" in self.headers:
            raise Problem(411, "length-required", "Send a Content-Length; chunked bodies are not supported.")
        length = self.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > BODY_BYTES_MAX:
            raise Problem(413, "body-too-large", f"A body is limited to {BODY_BYTES_MAX} bytes.")
        return b"" if length in ("", "0") else await read_body(self.protocol)

    def query(self, name: str) -> str:
        """The first value of a field; empty if the query does not have it."""
        try:
            fields = parse_qs(self.scope.query_string, max_num_fields=QUERY_FIELDS_MAX)
        except ValueError as error:
            raise Problem(400, "bad-request", f"A query is limited to {QUERY_FIELDS_MAX} fields.") from error
        return str(fields.get(name, [""])[0])


class Response(NamedTuple):
    """Header names are in lower case."""

    status: int
    headers: Headers
    body: bytes


def read_request(scope: Any, protocol: Any) -> Request:
    """Raises `Problem` if address or headers exceed a limit."""
    headers: Headers = scope.headers.items()
    if len(headers) < len(scope.headers.keys()):  # Granian leaves out values that are not ASCII
        raise unreadable_header()
    if len(scope.path) + len(scope.query_string) > ADDRESS_BYTES_MAX:
        raise Problem(414, "address-too-long", f"An address is limited to {ADDRESS_BYTES_MAX} bytes.")
    if (problem := header_problem(headers)) is not None:
        raise problem
    return Request(scope, protocol, headers)


def join_headers(headers: Headers) -> dict[str, str]:
    """Names with an underscore are dropped: for WSGI they would be the same as names that only our proxy may set."""
    joined: dict[str, str] = {}
    for name, value in headers:
        if "_" not in name:
            known = joined.get(name)
            joined[name] = value if known is None else f"{known}{'; ' if name == 'cookie' else ','}{value}"
    return joined


async def read_body(protocol: Any) -> bytes:
    try:
        with BODY_LIMIT:
            return bytes(await protocol())
    except TimeoutError:
        raise body_timeout() from None


def json_response(status: int, content: bytes, headers: Headers | None = None) -> Response:
    return Response(status, [JSON, *(headers or [])], content)


def problem_response(problem: Problem) -> Response:
    headers = [("content-type", PROBLEM_CONTENT_TYPE)]
    if problem.retry_after_s is not None:
        headers.append(("retry-after", str(max(1, round(problem.retry_after_s)))))
    if problem.status == 408:
        headers.append(("connection", "close"))  # the rest of the body may still arrive
    return Response(problem.status, headers, json.dumps(problem_body(problem)).encode())


# ── what Django's middleware does for its own routes ─────────────────────────────────────────────


def is_secure(request: Request) -> bool:
    """Over TLS, as a trusted proxy says it."""
    if settings.SECURE_PROXY_SSL_HEADER is None or not is_trusted_peer(request.peer):
        return bool(request.scope.scheme == "https")
    return request.headers.get("x-forwarded-proto", "").partition(",")[0].strip() == "https"


def needs_django(request: Request) -> bool:
    """The middleware would refuse or redirect this request: an unknown host, or plain HTTP where TLS is required."""
    if settings.SECURE_SSL_REDIRECT and not is_secure(request):
        return True
    return not _is_allowed_host(request.scope.authority or request.headers.get("host", ""))


@lru_cache(maxsize=1024)
def _is_allowed_host(host: str) -> bool:
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


@lru_cache(maxsize=2)
def security_headers(is_secure: bool) -> tuple[tuple[str, str], ...]:
    """The headers that Django's security middleware sets on an API response."""
    scheme = "https" if is_secure else "http"
    request = WSGIRequest({"REQUEST_METHOD": "GET", "wsgi.input": BytesIO(), "wsgi.url_scheme": scheme})
    if is_secure and settings.SECURE_PROXY_SSL_HEADER is not None:
        name, value = settings.SECURE_PROXY_SSL_HEADER
        request.META[name] = value
    response = HttpResponse()
    before = set(response.headers)
    for middleware in (SecurityMiddleware, XFrameOptionsMiddleware):
        middleware(_not_called).process_response(request, response)
    return tuple((name.lower(), value) for name, value in response.items() if name not in before)


def _not_called(request: HttpRequest) -> HttpResponse:
    raise NotImplementedError
