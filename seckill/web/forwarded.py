"""Middleware: whether a request came by TLS is believed from trusted proxies only, as the client's address is."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse

from gateway.addresses import is_trusted_peer

NAME = "HTTP_X_FORWARDED_PROTO"


def from_proxies_only(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    if settings.SECURE_PROXY_SSL_HEADER is None:
        raise MiddlewareNotUsed

    def respond(request: HttpRequest) -> HttpResponse:
        if NAME in request.META and not is_trusted_peer(request.META):
            del request.META[NAME]
        return get_response(request)

    return respond
