"""Shell: what all pages share: the signed-in buyer, pages for refusals, and the context of every template.

A buyer's cookie holds the same signed token that a program sends as a bearer token. Scripts cannot read it. Operators
sign in separately (seckill/console).
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

from seckill.web import tokens
from seckill.web.problem_texts import describe_problem
from seckill.web.problems import Problem, set_retry_after

log = logging.getLogger(__name__)

COOKIE = "buyer"
NO_STORE = "no-store"
RELOAD_S_MIN = 3
"""A page that was refused for a moment loads itself again no sooner."""

View = TypeVar("View", bound=Callable[..., HttpResponse])


# ── the buyer ────────────────────────────────────────────────────────────────────────────────────


def signed_in_buyer(request: HttpRequest) -> str | None:
    return tokens.verify_token(request.COOKIES.get(COOKIE, ""))


def set_buyer_cookie(response: HttpResponse, user_id: str) -> None:
    response.set_cookie(
        COOKIE,
        tokens.issue_token(user_id),
        max_age=settings.ENVIRONMENT.token_life_s,
        httponly=True,
        samesite="Lax",
        secure=settings.HAS_TLS,
    )


def delete_buyer_cookie(response: HttpResponse) -> None:
    response.delete_cookie(COOKIE, samesite="Lax")


def buyer_required(view: View) -> View:
    """Pass the buyer's id to the view, after the request. Without one, redirect to the sign-in page and back."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user_id = signed_in_buyer(request)
        if user_id is None:
            back = request.get_full_path() if request.method == "GET" else request.POST.get("back", "/")
            return HttpResponseRedirect(f"{reverse('sign-in')}?{urlencode({'next': back})}")
        return view(request, user_id, *args, **kwargs)

    return cast(View, wrapped)


def safe_redirect_target(request: HttpRequest, address: str, otherwise: str = "/") -> str:
    """The address if it leads to one of our pages, else `otherwise`."""
    is_ours = url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
    return address if is_ours else otherwise


# ── the page ─────────────────────────────────────────────────────────────────────────────────────


def html_page(view: View) -> View:
    """The edge of a page: problems and database faults become readable pages, and no cache keeps any of them."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            response = view(request, *args, **kwargs)
        except Problem as problem:
            response = refusal_page(request, problem.status, problem.kind, problem.retry_after_s)
        except DatabaseError as fault:
            log.warning("database unavailable", extra={"path": request.path, "reason": str(fault)})
            response = refusal_page(request, 503, "database-unavailable", 2)
        response.headers.setdefault("Cache-Control", NO_STORE)
        return response

    return cast(View, wrapped)


def refusal_page(request: HttpRequest, status: int, kind: str, retry_after_s: float | None = None) -> HttpResponse:
    reload_s = None if retry_after_s is None or request.method != "GET" else max(RELOAD_S_MIN, round(retry_after_s))
    context = {"words": describe_problem(kind), "kind": kind, "reload_s": reload_s}
    response = render(request, "seckill/refused.html", context, status=status)
    set_retry_after(response, retry_after_s)
    return response


def page_context(request: HttpRequest) -> dict[str, Any]:
    """Context processor: what every template needs."""
    return {
        "buyer": signed_in_buyer(request),
        "languages": settings.LANGUAGES,
        "language": translation.get_language(),
    }


# ── pages of Django's own refusals ───────────────────────────────────────────────────────────────


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """For a form that is not from one of our pages, or whose page is too old."""
    return refusal_page(request, 403, "form-not-ours")


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _error_page(request, 404, "no-such-address")


def server_error(request: HttpRequest) -> HttpResponse:
    return _error_page(request, 500, "internal")


def _error_page(request: HttpRequest, status: int, kind: str) -> HttpResponse:
    """Under /api the body stays empty: `seckill.web.problems.api_errors_as_problems` fills it."""
    if request.path_info.startswith("/api/"):
        return HttpResponse(status=status)
    return refusal_page(request, status, kind)
