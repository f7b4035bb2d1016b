"""Who may operate: a login of Django's with permissions, and what every page of the console has in common."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth import login as begin_session
from django.contrib.auth import logout as end_session
from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.request import split_domain_port
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from gateway.addresses import client_address
from seckill.audit.trail import spoken_by
from seckill.console import login_limits
from seckill.console.permissions import powers_of
from seckill.pages import page, within
from seckill.problems import Problem

View = TypeVar("View", bound=Callable[..., HttpResponse])


def for_operators(view: View) -> View:
    """Only with the permission to view; `request.powers` says what else. What the view does is written down under the
    operator's name."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        _check_host(request)
        user = request.user
        powers = powers_of(user)
        if not powers:
            if request.headers.get("Accept") == "application/json":
                return JsonResponse({"signed_in": False}, status=401)
            back = request.get_full_path() if request.method == "GET" else reverse("console:board")
            return HttpResponseRedirect(f"{reverse('console:login')}?{urlencode({'next': back})}")
        if any("\0" in text for form in (request.GET, request.POST) for name in form for text in form.getlist(name)):
            raise SuspiciousOperation("no text of ours has a NUL, and Postgres cannot keep one")
        request.powers = powers  # type: ignore[attr-defined]
        request.may = {power.value: True for power in powers}  # type: ignore[attr-defined]  # for templates
        with spoken_by(user.get_username()):
            return view(request, *args, **kwargs)

    return cast(View, page(wrapped))


@require_http_methods(["GET", "POST"])
@page
def login(request: HttpRequest) -> HttpResponse:
    _check_host(request)
    back = within(request, request.POST.get("next") or request.GET.get("next", ""), reverse("console:board"))
    if request.method == "GET":
        return render(request, "console/login.html", {"next": back})
    name, password = request.POST.get("username", "")[:150], request.POST.get("password", "")[:1000]
    address = client_address(request.META)
    try:
        login_limits.count_try(address, name)
        with login_limits.hashing():
            user = authenticate(request, username=name, password=password) if "\0" not in name else None
    except Problem as problem:
        told = {"next": back, "too_often": problem.status == 429, "uncounted": problem.status == 503}
        response = render(request, "console/login.html", told, status=problem.status)
        response["Retry-After"] = str(round(problem.retry_after_s or 1))
        return response
    if user is None or not powers_of(user):
        return render(request, "console/login.html", {"next": back, "name": name, "wrong": True}, status=403)
    login_limits.forget_success(address, name)
    begin_session(request, user)
    type(request.session).clear_expired()  # here, because sessions begin here and nothing else runs by the clock
    return HttpResponseRedirect(back, status=303)


@require_POST
@page
def logout(request: HttpRequest) -> HttpResponse:
    _check_host(request)
    end_session(request)
    return HttpResponseRedirect(reverse("console:login"), status=303)


def _check_host(request: HttpRequest) -> None:
    """`Http404` unless the console is here: in development on every host, elsewhere on SECKILL_CONSOLE_HOSTS only."""
    hosts = settings.ENVIRONMENT.console_hosts
    if not hosts and settings.ENVIRONMENT.development:
        return
    name, _ = split_domain_port(request.get_host())
    if name not in {host.strip().lower() for host in hosts.split(",") if host.strip()}:
        raise Http404
