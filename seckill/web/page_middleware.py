"""Django's middleware, where not everybody needs it: the API knows nobody by a session, and a purchase does not pay
for one."""

from __future__ import annotations

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.utils.deprecation import MiddlewareMixin

API = "/api/v1/"
METRICS = "/metrics"


class _OnlyPages(MiddlewareMixin):
    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path_info.startswith(API):
            return self.get_response(request)  # type: ignore[return-value]  # never asynchronous here
        return super().__call__(request)  # type: ignore[return-value]


class Sessions(_OnlyPages, SessionMiddleware):
    pass


class Authentication(_OnlyPages, AuthenticationMiddleware):
    pass


class Common(CommonMiddleware):
    """Prometheus asks each of several gateways by its address, which is no name that could stand in ALLOWED_HOSTS; its
    page has no links that a made-up name could spoil."""

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        return None if request.path_info == METRICS else super().process_request(request)
