"""Who may operate: a staff login of Django's, and what every page of the console has in common."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from django.contrib.auth import authenticate
from django.contrib.auth import login as begin_session
from django.contrib.auth import logout as end_session
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST
from redis.exceptions import RedisError

from gateway.addresses import client_address
from gateway.admission import redis
from seckill.audit.trail import spoken_by
from seckill.pages import page, within

MOST_FAILURES, REST_S = 5, 60

View = TypeVar("View", bound=Callable[..., HttpResponse])


def for_operators(view: View) -> View:
    """Only staff. What the view does is written down under the operator's name."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user = request.user
        if not (user.is_authenticated and user.is_staff):
            if request.headers.get("Accept") == "application/json":
                return JsonResponse({"signed_in": False}, status=401)
            back = request.get_full_path() if request.method == "GET" else reverse("console:board")
            return HttpResponseRedirect(f"{reverse('console:login')}?{urlencode({'next': back})}")
        if any("\0" in text for form in (request.GET, request.POST) for name in form for text in form.getlist(name)):
            raise SuspiciousOperation("no text of ours has a NUL, and Postgres cannot keep one")
        with spoken_by(user.get_username()):
            return view(request, *args, **kwargs)

    return cast(View, page(wrapped))


@require_http_methods(["GET", "POST"])
@page
def login(request: HttpRequest) -> HttpResponse:
    back = within(request, request.POST.get("next") or request.GET.get("next", ""), reverse("console:board"))
    if request.method == "GET":
        return render(request, "console/login.html", {"next": back})
    name, password = request.POST.get("username", "")[:150], request.POST.get("password", "")[:1000]
    if _has_failed_too_often(request):
        return render(request, "console/login.html", {"next": back, "too_often": True}, status=429)
    user = authenticate(request, username=name, password=password)
    if user is None or not user.is_staff:
        _failed(request)
        return render(request, "console/login.html", {"next": back, "name": name, "wrong": True}, status=403)
    begin_session(request, user)
    return HttpResponseRedirect(back, status=303)


@require_POST
@page
def logout(request: HttpRequest) -> HttpResponse:
    end_session(request)
    return HttpResponseRedirect(reverse("console:login"), status=303)


def _has_failed_too_often(request: HttpRequest) -> bool:
    """By address; without Redis nobody counts, and the passwords have to do."""
    try:
        return int(cast("str | None", redis().get(_key(request))) or 0) >= MOST_FAILURES
    except RedisError:
        return False


def _failed(request: HttpRequest) -> None:
    try:
        counting = redis().pipeline()
        counting.incr(_key(request))
        counting.expire(_key(request), REST_S)
        counting.execute()
    except RedisError:
        pass


def _key(request: HttpRequest) -> str:
    return f"console:failed:{client_address(request.META)}"
