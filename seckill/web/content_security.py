"""Middleware: what a browser may load for our pages: only our own files, no inline scripts or styles."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from seckill.web.page_middleware import is_api

POLICY = "Content-Security-Policy"


def policy() -> str:
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def content_security_policy(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Pages only. A page that needs another policy sets the header itself."""
    default_policy = policy()

    def respond(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not is_api(request):
            response.headers.setdefault(POLICY, default_policy)
            response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()")
        return response

    return respond
