"""Decision: which requests are refused by their headers alone, before anything is parsed or joined.

Cookies get a limit of their own: Python before 3.11.10 and 3.12.6 unquotes a cookie in quadratic time (CVE-2024-7592),
and Django parses cookies on every address. No cookie of ours is quoted, so a long one with escapes is refused whatever
the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django.http import HttpRequest, HttpResponse

from seckill.problems import Problem, answer

ADDRESS_BYTES_MAX = 8 * 1024  # path and query
HEADER_BYTES_MAX = 16 * 1024
COOKIE_BYTES_MAX = 8 * 1024
ESCAPED_COOKIE_BYTES_MAX = 1024
BODY_SECONDS_MAX = 10.0

_NAMES = {"HTTP_COOKIE": "cookie", "HTTP_UPGRADE": "upgrade"}


def header_problem(headers: Iterable[tuple[str, str]]) -> Problem | None:
    """Names in lower case, values as Latin-1 text; None: they may be parsed."""
    whole = cookies = 0
    is_escaped = False
    for name, value in headers:
        whole += len(name) + len(value)
        if not value.isascii():
            return unreadable_header()
        if name == "upgrade" and "websocket" in value.lower():
            return Problem(400, "bad-header", "There are no WebSockets here.")
        if name == "cookie":
            cookies += len(value)
            is_escaped = is_escaped or "\\" in value
    if cookies > (ESCAPED_COOKIE_BYTES_MAX if is_escaped else COOKIE_BYTES_MAX):
        return Problem(431, "headers-too-large", f"Cookies may have {COOKIE_BYTES_MAX} bytes, and no long escapes.")
    if whole > HEADER_BYTES_MAX:
        return Problem(431, "headers-too-large", f"Headers may have {HEADER_BYTES_MAX} bytes.")
    return None


def unreadable_header() -> Problem:
    return Problem(400, "bad-header", "A header has bytes that are not ASCII.")


def body_timeout() -> Problem:
    return Problem(408, "body-timeout", f"The body did not arrive within {BODY_SECONDS_MAX:.0f} seconds.")


def checked_headers(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware, before any that reads cookies: the same limits by whatever server the request came."""

    def respond(request: HttpRequest) -> HttpResponse:
        meta = request.META
        if len(meta["PATH_INFO"]) + len(meta.get("QUERY_STRING", "")) > ADDRESS_BYTES_MAX:
            return answer(Problem(414, "address-too-long", f"An address may have {ADDRESS_BYTES_MAX} bytes."))
        problem = header_problem([(_NAMES.get(key, key), meta[key]) for key in meta if key[:5] == "HTTP_"])
        return get_response(request) if problem is None else answer(problem)

    return respond
