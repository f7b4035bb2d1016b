"""What a browser may do with our pages: everything from here and nothing from elsewhere, no inline script or style."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

POLICY = "Content-Security-Policy"


def policy() -> str:
    """Only the stream of events may come from another address of ours."""
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        f"connect-src 'self' {settings.ENVIRONMENT.live_url}; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


def on_every_page(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware; a page that needs another policy brings it along. Answers of the API are no pages."""
    same = policy()

    def respond(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not request.path_info.startswith("/api/v1/"):
            response.headers.setdefault(POLICY, same)
            response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()")
        return response

    return respond
