"""What a browser may do with our pages: everything from here and nothing from elsewhere, no inline script or style."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from seckill.only_pages import API

POLICY = "Content-Security-Policy"


def policy() -> str:
    """Only the stream of events may come from another address of ours."""
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        f"connect-src 'self' {settings.ENVIRONMENT.live_url}; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


def on_every_page(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware; a page that needs another policy brings it along. Answers of the API are no pages: whoever calls it
    is known by a token that no browser sends by itself, so a method that is not there is a 405 and no forgery."""
    same = policy()

    def respond(request: HttpRequest) -> HttpResponse:
        is_page = not request.path_info.startswith(API)
        if not is_page:
            request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]
        response = get_response(request)
        if is_page:
            response.headers.setdefault(POLICY, same)
            response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()")
        return response

    return respond
