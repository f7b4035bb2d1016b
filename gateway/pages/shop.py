"""HTTP of the shop: the sale, and the button."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from gateway import buying, sales
from gateway.desk import MOST_TICKET, Call
from gateway.events import MOST_UNITS
from gateway.pages import attempts
from gateway.sales import Availability
from gateway.views import USER_NAME
from inventory.events import SaleView
from seckill.pages import for_buyers, forget, page, remember, visitor, within
from seckill.problems import Problem
from seckill.signing_in import demo_only, own_view
from seckill.words import of_problem

MOST_OFFERED = 10
KINDS = ("upcoming", "open", "all_held", "sold_out", "paused", "closed")


@require_GET
@page
def shop(request: HttpRequest) -> HttpResponse:
    """The sale that matters now, and the others."""
    views = sorted(sales.listed(), key=_importance)
    if not views:
        return render(request, "shop/none.html")
    return _show(request, views[0], views[1:])


@require_GET
@page
def sale(request: HttpRequest, sale_id: int) -> HttpResponse:
    return _show(request, sales.find(sale_id), [])


@require_POST
@page
@for_buyers
def buy(request: HttpRequest, user_id: str, sale_id: int) -> HttpResponse:
    """Into the queue, then to the page of the purchase; the same try again leads to the same page."""
    view = sales.find(sale_id)
    number, quantity = _number(request, "attempt", attempts.MOST), _number(request, "quantity", MOST_UNITS)
    ticket = request.POST.get("ticket", "")[:MOST_TICKET]
    call = Call(
        sale_id, user_id, "", attempts.key(number), ticket, request.META.get("REMOTE_ADDR", ""),
        request.META.get("HTTP_X_FORWARDED_FOR", ""), None, json.dumps({"quantity": quantity}).encode(),
    )  # fmt: skip
    try:
        accepted = buying.buy(call)
    except Problem as problem:
        return _show(request, view, [], problem)
    more = urlencode({"place": accepted.signed_place, "sale": str(sale_id)})
    return HttpResponseRedirect(f"{reverse('purchase', args=[accepted.request_id])}?{more}", status=303)


@require_POST
@page
@for_buyers
def ticket(request: HttpRequest, user_id: str, sale_id: int) -> HttpResponse:
    """For a page that was there before the opening, or for too long."""
    return HttpResponse(buying.ticket_for(sales.find(sale_id), user_id)[0], content_type="text/plain")


@page
def sign_in(request: HttpRequest) -> HttpResponse:
    """The demo's, or your own (seckill/signing_in.py)."""
    own = own_view()
    return own(request) if own is not None else _demo_sign_in(request)


@demo_only
@require_http_methods(["GET", "POST"])
def _demo_sign_in(request: HttpRequest) -> HttpResponse:
    back = within(request, request.POST.get("next") or request.GET.get("next", "/"))
    if request.method == "GET":
        return render(request, "shop/sign_in.html", {"next": back})
    user = request.POST.get("user", "").strip()
    if not USER_NAME.fullmatch(user):
        told = {"next": back, "user": user[:100], "words": of_problem("bad-user")}
        return render(request, "shop/sign_in.html", told, status=400)
    response = HttpResponseRedirect(back, status=303)
    remember(response, user)
    return response


@require_POST
@page
def sign_out(request: HttpRequest) -> HttpResponse:
    response = HttpResponseRedirect("/", status=303)
    forget(response)
    return response


def kind(view: SaleView, now_ms: int) -> str:
    """What the page says of the sale; static/shop/sale.js says the same between two loads."""
    if now_ms >= view.closes_at_ms or view.state not in ("open", "paused"):
        return "closed"
    if now_ms < view.opens_at_ms:
        return "upcoming"
    if view.state == "paused":
        return "paused"
    return {Availability.AVAILABLE: "open", Availability.ALL_HELD: "all_held"}.get(sales.availability(view), "sold_out")


def _show(request: HttpRequest, view: SaleView, others: list[SaleView], problem: Problem | None = None) -> HttpResponse:
    user_id, now_ms = visitor(request), sales.now_ms()
    kind_now = kind(view, now_ms)
    told: dict[str, Any] = {
        "sale": view,
        "kind": kind_now,
        "now_ms": now_ms,
        "refresh_s": _refresh_s(view, now_ms),
        "quantities": range(1, min(view.cap, MOST_OFFERED) + 1),
        "others": [(other, kind(other, now_ms)) for other in others],
        "words": of_problem(problem.kind) if problem is not None else None,
    }
    if user_id is not None:
        mine = attempts.of(user_id, view.id)
        told |= {"mine": mine, "ticket": _ticket(view, user_id, kind_now)}
    response = render(request, "shop/sale.html", told, status=200 if problem is None else problem.status)
    if problem is not None and problem.retry_after_s is not None:
        response["Retry-After"] = str(max(1, round(problem.retry_after_s)))
    return response


def _ticket(view: SaleView, user_id: str, kind_now: str) -> str:
    """Only an open sale gives any."""
    return buying.ticket_for(view, user_id)[0] if kind_now in ("open", "all_held") else ""


def _refresh_s(view: SaleView, now_ms: int) -> int:
    """For a reader without scripts: at the opening, and every few seconds."""
    to_opening_s = (view.opens_at_ms - now_ms) // 1000 + 1
    return min(5, to_opening_s) if to_opening_s > 0 else 5


def _importance(view: SaleView) -> tuple[bool, bool, int]:
    """What is on, then what comes next, then what was; the newest first."""
    now_ms = sales.now_ms()
    kind_now = kind(view, now_ms)
    return kind_now in ("closed", "sold_out"), kind_now == "upcoming", -view.id


def _number(request: HttpRequest, name: str, most: int) -> int:
    text = request.POST.get(name, "1")
    if not text.isdecimal() or len(text) > 9 or not 0 < int(text) <= most:
        raise Problem(400, "bad-quantity", f"`{name}` is no number that was offered.")
    return int(text)
