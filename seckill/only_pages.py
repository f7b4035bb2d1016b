"""Django's middleware that only pages need: the API knows nobody by a session, and a purchase does not pay for one."""

from __future__ import annotations

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

API = "/api/v1/"


class _OnlyPages(MiddlewareMixin):
    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path_info.startswith(API):
            return self.get_response(request)  # type: ignore[return-value]  # never asynchronous here
        return super().__call__(request)  # type: ignore[return-value]


class Sessions(_OnlyPages, SessionMiddleware):
    pass


class Authentication(_OnlyPages, AuthenticationMiddleware):
    pass
