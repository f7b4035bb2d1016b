"""Django's middleware, limited to pages.

The API needs no session and no language, because a client identifies itself with a token in each request. A purchase
should not pay for what it does not need.
"""

from __future__ import annotations

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.middleware.locale import LocaleMiddleware
from django.utils.deprecation import MiddlewareMixin

API = "/api/v1/"
METRICS = "/metrics"


def is_api(request: HttpRequest) -> bool:
    return request.path_info.startswith(API)


class _PagesOnly(MiddlewareMixin):
    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_api(request):
            return self.get_response(request)  # type: ignore[return-value]  # never asynchronous here
        return super().__call__(request)  # type: ignore[return-value]


class Sessions(_PagesOnly, SessionMiddleware):
    pass


class Locale(_PagesOnly, LocaleMiddleware):
    pass


class Authentication(_PagesOnly, AuthenticationMiddleware):
    pass


class Messages(_PagesOnly, MessageMiddleware):
    pass


class Common(CommonMiddleware):
    """Skips the check of the Host header for /metrics: Prometheus scrapes each gateway by its address, which is not in
    ALLOWED_HOSTS. That page contains no links, so a forged host cannot do harm there."""

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        return None if request.path_info == METRICS else super().process_request(request)
