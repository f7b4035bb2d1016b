"""Shell: what all pages for people have in common: who visits, in which language, and refusals in words.

A buyer's cookie holds the same signed token that a program sends as a bearer token; scripts cannot read it. Pages of
operators have a login of their own (seckill/console).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from django.conf import settings
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import translation
from django.utils.http import url_has_allowed_host_and_scheme

from seckill import tokens
from seckill.problems import Problem
from seckill.words import of_problem

log = logging.getLogger(__name__)

COOKIE = "buyer"
PRIVATE = "no-store"

View = TypeVar("View", bound=Callable[..., HttpResponse])


# ── the visitor ──────────────────────────────────────────────────────────────────────────────────


def visitor(request: HttpRequest) -> str | None:
    """The buyer who has signed in with this browser."""
    return tokens.read(request.COOKIES.get(COOKIE, ""))


def remember(response: HttpResponse, user_id: str) -> None:
    response.set_cookie(
        COOKIE,
        tokens.issue(user_id),
        max_age=settings.ENVIRONMENT.token_life_s,
        httponly=True,
        samesite="Lax",
        secure=settings.HAS_TLS,
    )


def forget(response: HttpResponse) -> None:
    response.delete_cookie(COOKIE, samesite="Lax")


def for_buyers(view: View) -> View:
    """The view gets the buyer's name after the request; whoever has none is sent to sign in, and comes back."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user_id = visitor(request)
        if user_id is None:
            back = request.get_full_path() if request.method == "GET" else request.POST.get("back", "/")
            return HttpResponseRedirect(f"{reverse('sign-in')}?{urlencode({'next': back})}")
        return view(request, user_id, *args, **kwargs)

    return cast(View, wrapped)


def within(request: HttpRequest, address: str, otherwise: str = "/") -> str:
    """The address if it leads to a page of ours."""
    is_ours = url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
    return address if is_ours else otherwise


# ── the page ─────────────────────────────────────────────────────────────────────────────────────


def page(view: View) -> View:
    """The edge of a page: in the visitor's language, kept by nobody; problems become pages with words."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with in_words_of(request):
            try:
                response = view(request, *args, **kwargs)
            except Problem as problem:
                response = refused(request, problem.status, problem.kind, problem.retry_after_s)
            except DatabaseError as fault:
                log.warning("database away", extra={"path": request.path, "reason": str(fault)})
                response = refused(request, 503, "database-unavailable", 2)
        response.headers.setdefault("Cache-Control", PRIVATE)
        return response

    return cast(View, wrapped)


def in_words_of(request: HttpRequest) -> translation.override:
    """What the visitor has chosen, else what his browser asks for."""
    return translation.override(translation.get_language_from_request(request))


def refused(request: HttpRequest, status: int, kind: str, retry_after_s: float | None = None) -> HttpResponse:
    response = render(request, "seckill/refused.html", {"words": of_problem(kind), "kind": kind}, status=status)
    if retry_after_s is not None:
        response["Retry-After"] = str(max(1, round(retry_after_s)))
    return response


def on_every_page(request: HttpRequest) -> dict[str, Any]:
    """Context processor."""
    return {"buyer": visitor(request), "languages": settings.LANGUAGES, "language": translation.get_language()}


def forged(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that was not on a page of ours, or whose page is too old."""
    with in_words_of(request):
        return refused(request, 403, "form-not-ours")


def missing(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _outside(request, 404, "no-such-address")


def broken(request: HttpRequest) -> HttpResponse:
    return _outside(request, 500, "internal")


def _outside(request: HttpRequest, status: int, kind: str) -> HttpResponse:
    """Where no view was asked. Programs get theirs from `seckill.problems.every_error`."""
    if request.path_info.startswith("/api/"):
        return HttpResponse(status=status)
    with in_words_of(request):
        return refused(request, status, kind)
