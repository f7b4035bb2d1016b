"""Middleware: X-Forwarded-Proto counts only if a trusted proxy sent it, like X-Forwarded-For."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse

from seckill.web.client_address import is_trusted_peer

NAME = "HTTP_X_FORWARDED_PROTO"


def trust_proxies_only(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    if settings.SECURE_PROXY_SSL_HEADER is None:
        raise MiddlewareNotUsed

    def respond(request: HttpRequest) -> HttpResponse:
        if NAME in request.META and not is_trusted_peer(request.META.get("REMOTE_ADDR", "")):
            del request.META[NAME]
        return get_response(request)

    return respond
