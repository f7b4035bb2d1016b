"""The page of a sale with its button, and the demo's sign-in."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from gateway import from_threads, redis_clock, sales
from gateway.events import SKU_CHARACTERS_MAX, UNITS_MAX
from gateway.pages import attempts
from gateway.pages.sale_phase import CAN_BUY, OVER, SalePhase, article_phase, sale_phase
from gateway.purchase import TICKET_CHARACTERS_MAX, PurchaseCall, issue_ticket
from gateway.views import USER_NAME
from inventory.events import SaleView
from seckill.web.pages import (
    buyer_required,
    delete_buyer_cookie,
    html_page,
    safe_redirect_target,
    set_buyer_cookie,
    signed_in_buyer,
)
from seckill.web.problem_texts import describe_problem
from seckill.web.problems import Problem, set_retry_after
from seckill.web.sign_in import custom_sign_in_view, demo_only

QUANTITIES_MAX = 10
REFRESH_SECONDS_MAX = 5


@require_GET
@html_page
def shop(request: HttpRequest) -> HttpResponse:
    """The most important sale, and links to the others."""
    views = sorted(sales.list_sales(), key=_importance)
    if not views:
        return render(request, "shop/none.html")
    return _sale_page(request, views[0], views[1:])


@require_GET
@html_page
def sale(request: HttpRequest, sale_id: int) -> HttpResponse:
    return _sale_page(request, sales.find_sale(sale_id), [])


@require_POST
@html_page
@buyer_required
def buy(request: HttpRequest, user_id: str, sale_id: int) -> HttpResponse:
    """Enqueue the purchase and redirect to its page. The same attempt always leads to the same page."""
    view = sales.find_sale(sale_id)
    sku = request.POST.get("sku", view.sku)[:SKU_CHARACTERS_MAX]
    call = _parse_purchase(request, user_id, sale_id, sku)
    try:
        accepted = from_threads.buy(call)
    except Problem as problem:
        return _sale_page(request, view, [], problem)
    query = urlencode({"place": accepted.signed_position, "sale": str(sale_id), "sku": sku})
    return HttpResponseRedirect(f"{reverse('purchase', args=[accepted.request_id])}?{query}", status=303)


@require_POST
@html_page
@buyer_required
def ticket(request: HttpRequest, user_id: str, sale_id: int) -> HttpResponse:
    """For a page that was loaded before the opening, or whose ticket has expired."""
    text, _ = issue_ticket(sales.find_sale(sale_id), user_id)
    return HttpResponse(text, content_type="text/plain")


@html_page
def sign_in(request: HttpRequest) -> HttpResponse:
    """The view named by SECKILL_SIGN_IN, or the demo's (seckill/web/sign_in.py)."""
    custom = custom_sign_in_view()
    return custom(request) if custom is not None else _demo_sign_in(request)


@demo_only
@require_http_methods(["GET", "POST"])
def _demo_sign_in(request: HttpRequest) -> HttpResponse:
    target = safe_redirect_target(request, request.POST.get("next") or request.GET.get("next", "/"))
    if request.method == "GET":
        return render(request, "shop/sign_in.html", {"next": target})
    user = request.POST.get("user", "").strip()
    if not USER_NAME.fullmatch(user):
        context = {"next": target, "typed": user[:100], "words": describe_problem("bad-user")}
        return render(request, "shop/sign_in.html", context, status=400)
    response = HttpResponseRedirect(target, status=303)
    set_buyer_cookie(response, user)
    return response


@require_POST
@html_page
def sign_out(request: HttpRequest) -> HttpResponse:
    response = HttpResponseRedirect("/", status=303)
    delete_buyer_cookie(response)
    return response


def _parse_purchase(request: HttpRequest, user_id: str, sale_id: int, sku: str) -> PurchaseCall:
    number = _parse_number(request, "attempt", attempts.ATTEMPTS_MAX)
    quantity = _parse_number(request, "quantity", UNITS_MAX)
    return PurchaseCall(
        sale_id, user_id, "", attempts.attempt_key(number), request.POST.get("ticket", "")[:TICKET_CHARACTERS_MAX],
        request.META.get("REMOTE_ADDR", ""), request.META.get("HTTP_X_FORWARDED_FOR", ""), None,
        json.dumps({"quantity": quantity, "sku": sku}).encode(),
    )  # fmt: skip


def _parse_number(request: HttpRequest, name: str, largest: int) -> int:
    text = request.POST.get(name, "1")
    if not text.isdecimal() or len(text) > 9 or not 0 < int(text) <= largest:
        raise Problem(400, "bad-quantity", f"`{name}` must be a whole number from 1 to {largest}, got {text!r:.50}.")
    return int(text)


def _sale_page(
    request: HttpRequest, view: SaleView, others: list[SaleView], problem: Problem | None = None
) -> HttpResponse:
    user_id, now_ms = signed_in_buyer(request), redis_clock.now_ms()
    phase = sale_phase(view, now_ms)
    context: dict[str, Any] = {
        "sale": view,
        "phase": phase,
        "can_buy": CAN_BUY,
        "over": OVER,
        "articles": [(each, article_phase(each, now_ms), _quantities(each)) for each in view.articles()],
        "pay_minutes": settings.ENVIRONMENT.payment_ttl_s // 60,
        "now_ms": now_ms,
        "refresh_s": _refresh_s(view, now_ms),
        "others": [(other, sale_phase(other, now_ms)) for other in others],
        "words": describe_problem(problem.kind) if problem is not None else None,
    }
    if user_id is not None:
        text = issue_ticket(view, user_id)[0] if phase in CAN_BUY else ""
        context |= {"mine": attempts.find_attempts(user_id, view.id), "ticket": text}
    response = render(request, "shop/sale.html", context, status=200 if problem is None else problem.status)
    set_retry_after(response, None if problem is None else problem.retry_after_s)
    return response


def _quantities(article: SaleView) -> range:
    return range(1, min(article.cap, QUANTITIES_MAX) + 1)


def _refresh_s(view: SaleView, now_ms: int) -> int:
    """For a browser without scripts: at the opening, and every few seconds."""
    to_opening_s = (view.opens_at_ms - now_ms) // 1000 + 1
    return min(REFRESH_SECONDS_MAX, to_opening_s) if to_opening_s > 0 else REFRESH_SECONDS_MAX


def _importance(view: SaleView) -> tuple[bool, bool, int]:
    """Open sales first, then upcoming ones, then past ones; the newest first."""
    phase = sale_phase(view, redis_clock.now_ms())
    return phase in OVER, phase is SalePhase.UPCOMING, -view.id
