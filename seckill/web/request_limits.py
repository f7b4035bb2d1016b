"""Decision: which requests are refused for the size of their headers, before anything is parsed.

Cookies have a smaller limit of their own, because Python before 3.11.10 and 3.12.6 unquotes a cookie in quadratic time
(CVE-2024-7592) and Django parses cookies on every address. None of our cookies is quoted, so a long cookie with escapes
is refused on every version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django.http import HttpRequest, HttpResponse

from seckill.web.problems import Problem, problem_response

ADDRESS_BYTES_MAX = 8 * 1024  # path and query
HEADER_BYTES_MAX = 16 * 1024
COOKIE_BYTES_MAX = 8 * 1024
ESCAPED_COOKIE_BYTES_MAX = 1024
BODY_SECONDS_MAX = 10.0

_NAMES = {"HTTP_COOKIE": "cookie", "HTTP_UPGRADE": "upgrade"}


def header_problem(headers: Iterable[tuple[str, str]]) -> Problem | None:
    """None if the headers may be parsed. Names are in lower case, values are Latin-1 text."""
    total_bytes = cookie_bytes = 0
    is_escaped = False
    for name, value in headers:
        total_bytes += len(name) + len(value)
        if not value.isascii():
            return unreadable_header()
        if name == "upgrade" and "websocket" in value.lower():
            return Problem(400, "bad-header", "WebSockets are not supported.")
        if name == "cookie":
            cookie_bytes += len(value)
            is_escaped = is_escaped or "\\" in value
    if cookie_bytes > (ESCAPED_COOKIE_BYTES_MAX if is_escaped else COOKIE_BYTES_MAX):
        detail = f"Cookies are limited to {COOKIE_BYTES_MAX} bytes, or {ESCAPED_COOKIE_BYTES_MAX} with escapes."
        return Problem(431, "headers-too-large", detail)
    if total_bytes > HEADER_BYTES_MAX:
        return Problem(431, "headers-too-large", f"Headers are limited to {HEADER_BYTES_MAX} bytes.")
    return None


def unreadable_header() -> Problem:
    return Problem(400, "bad-header", "A header contains bytes that are not ASCII.")


def body_timeout() -> Problem:
    return Problem(408, "body-timeout", f"The body did not arrive within {BODY_SECONDS_MAX:.0f} seconds.")


def limit_headers(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware, placed before any that reads cookies, so the limits hold under every server."""

    def respond(request: HttpRequest) -> HttpResponse:
        meta = request.META
        if len(meta["PATH_INFO"]) + len(meta.get("QUERY_STRING", "")) > ADDRESS_BYTES_MAX:
            problem = Problem(414, "address-too-long", f"An address is limited to {ADDRESS_BYTES_MAX} bytes.")
            return problem_response(problem)
        refused = header_problem([(_NAMES.get(key, key), meta[key]) for key in meta if key[:5] == "HTTP_"])
        return get_response(request) if refused is None else problem_response(refused)

    return respond
