"""Sign-in of operators with Django's users and permissions, and the edge of every console page."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import auth
from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.request import split_domain_port
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from seckill.audit.trail import acting_as
from seckill.console import login_limits
from seckill.console.permissions import permissions_of
from seckill.web.client_address import client_address
from seckill.web.pages import html_page, safe_redirect_target
from seckill.web.problems import Problem, set_retry_after

View = TypeVar("View", bound=Callable[..., HttpResponse])

NAME_CHARACTERS_MAX, PASSWORD_CHARACTERS_MAX = 150, 1000


def operator_required(view: View) -> View:
    """Only for users with the permission to view; `request.permissions` lists all they have.

    The audit trail records what the view does under the operator's name.
    """

    @functools.wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        check_host(request)
        permissions = permissions_of(request.user)
        if not permissions:
            return _sign_in_first(request)
        if any("\0" in text for form in (request.GET, request.POST) for name in form for text in form.getlist(name)):
            raise SuspiciousOperation("a form field contains NUL, which Postgres cannot store")
        request.permissions = permissions  # type: ignore[attr-defined]
        request.may = {permission.value: True for permission in permissions}  # type: ignore[attr-defined]  # templates
        with acting_as(request.user.get_username()):
            return view(request, *args, **kwargs)

    return cast(View, html_page(wrapped))


def _sign_in_first(request: HttpRequest) -> HttpResponse:
    if request.headers.get("Accept") == "application/json":
        return JsonResponse({"signed_in": False}, status=401)
    back = request.get_full_path() if request.method == "GET" else reverse("console:board")
    return HttpResponseRedirect(f"{reverse('console:login')}?{urlencode({'next': back})}")


@require_http_methods(["GET", "POST"])
@html_page
def login(request: HttpRequest) -> HttpResponse:
    check_host(request)
    wanted = request.POST.get("next") or request.GET.get("next", "")
    target = safe_redirect_target(request, wanted, reverse("console:board"))
    if request.method == "GET":
        return render(request, "console/login.html", {"next": target})
    name = request.POST.get("username", "")[:NAME_CHARACTERS_MAX]
    password = request.POST.get("password", "")[:PASSWORD_CHARACTERS_MAX]
    address = client_address(request.META)
    try:
        login_limits.count_attempt(address, name)
        with login_limits.password_hash_slot():
            user = auth.authenticate(request, username=name, password=password) if "\0" not in name else None
    except Problem as problem:
        context = {"next": target, "too_many": problem.status == 429, "unavailable": problem.status == 503}
        response = render(request, "console/login.html", context, status=problem.status)
        set_retry_after(response, problem.retry_after_s or 1)
        return response
    if user is None or not permissions_of(user):
        return render(request, "console/login.html", {"next": target, "name": name, "wrong": True}, status=403)
    login_limits.uncount_success(address, name)
    auth.login(request, user)
    type(request.session).clear_expired()  # done here because nothing else runs regularly and touches sessions
    return HttpResponseRedirect(target, status=303)


@require_POST
@html_page
def logout(request: HttpRequest) -> HttpResponse:
    check_host(request)
    auth.logout(request)
    return HttpResponseRedirect(reverse("console:login"), status=303)


def check_host(request: HttpRequest) -> None:
    """`Http404` unless the console is served here: on every host in development, else on SECKILL_CONSOLE_HOSTS only."""
    hosts = settings.ENVIRONMENT.console_hosts
    if not hosts and settings.ENVIRONMENT.development:
        return
    name, _ = split_domain_port(request.get_host())
    if name not in {host.strip().lower() for host in hosts.split(",") if host.strip()}:
        raise Http404
