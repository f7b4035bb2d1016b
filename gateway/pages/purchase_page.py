"""The page of one purchase. It shows what `purchase_status` knows and guesses nothing."""

from __future__ import annotations

import time
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from gateway import from_threads, redis_clock, sales, signed_positions
from gateway.events import SKU_CHARACTERS_MAX
from gateway.models import Outcome
from gateway.pages import attempts
from gateway.pages.outcome_texts import describe_outcome, purchase_steps
from gateway.pages.sale_phase import OVER, SalePhase, article_phase, sale_phase
from gateway.purchase_status import PurchaseStatus
from inventory.events import SaleView
from seckill.web.pages import buyer_required, html_page
from seckill.web.problems import Problem
from seckill.web.purchase_states import PurchaseState

REFRESH_SOON_S, REFRESH_LATER_S = 2, 10
SALE_DIGITS_MAX = 9


class Progress(NamedTuple):
    """`percent` of the expected wait is over; `since_ms`: when the request was admitted, or empty."""

    since_ms: str
    percent: int


@require_GET
@html_page
@buyer_required
def purchase(request: HttpRequest, user_id: str, request_id: UUID) -> HttpResponse:
    context = _purchase_context(request, user_id, request_id)
    place = attempts.find_signed_position(request_id, user_id, request.GET.get("place", ""))
    stream = f"/api/v1/purchases/{request_id}/events?{urlencode({'place': place})}"
    query = urlencode(
        {
            "place": place,
            "sale": _sale_parameter(request),
            "sku": request.GET.get("sku", "")[:SKU_CHARACTERS_MAX],
            "paying": request.GET.get("paying", "")[:1],
        }
    )
    context |= {
        "fragment_url": f"{reverse('purchase-now', args=[request_id])}?{query}",
        "events_url": stream if place and not context["is_over"] else "",
    }
    return render(request, "shop/purchase.html", context)


@require_GET
@html_page
@buyer_required
def purchase_fragment(request: HttpRequest, user_id: str, request_id: UUID) -> HttpResponse:
    """The part of the page that changes. The page's script loads it."""
    return render(request, "shop/outcome.html", _purchase_context(request, user_id, request_id))


def _purchase_context(request: HttpRequest, user_id: str, request_id: UUID) -> dict[str, Any]:
    signed = signed_positions.verify_position(request_id, request.GET.get("place", ""))
    status = from_threads.fetch_status(request_id, signed)
    if status is None or status.user_id != user_id:
        raise Problem(404, "no-such-purchase", "You have no such request.")
    view, now_ms = _sale_of(status, _sale_parameter(request))
    article = None if view is None else _article_of(status, view, request.GET.get("sku", ""))
    phase = None if view is None else sale_phase(view, now_ms)
    is_over = attempts.is_over(status)
    return {
        "request_id": request_id,
        "state": status.state,
        "outcome": status.outcome,
        "text": _text(status, None if article is None else article_phase(article, now_ms)),
        "steps": purchase_steps(status.state),
        "estimate": status.estimate,
        "progress": _progress(status, now_ms),
        "pay_minutes": settings.ENVIRONMENT.payment_ttl_s // 60,
        "deadline_ms": status.deadline_ms,
        "is_over": is_over,
        "sale": view,
        "article": article,
        "can_retry": is_over and phase is not None and phase not in OVER,
        "now_ms": now_ms,
        "refresh_s": _refresh_s(status.state),
    }


def _text(status: PurchaseStatus, phase: SalePhase | None) -> Any:
    may_buy_again = status.outcome is not None and status.outcome.may_buy_again
    return describe_outcome(status.state, may_buy_again=may_buy_again, phase=phase)


def _progress(status: PurchaseStatus, now_ms: int) -> Progress:
    """The deadline says when the request was admitted. static/shop/purchase.js applies the same rule between two
    loads."""
    if status.deadline_ms is None:
        return Progress("", 0)
    since_ms = status.deadline_ms - settings.ENVIRONMENT.purchase_deadline_s * 1000
    wait_ms = None if status.estimate is None else status.estimate.wait_ms
    waited_ms = max(0, now_ms - since_ms)
    return Progress(str(since_ms), 0 if wait_ms is None else 100 * waited_ms // max(1, waited_ms + wait_ms))


def _refresh_s(state: PurchaseState) -> int:
    """For a browser without scripts."""
    return REFRESH_SOON_S if state in (PurchaseState.QUEUED, PurchaseState.RESERVED) else REFRESH_LATER_S


def _article_of(status: PurchaseStatus, view: SaleView, parameter: str) -> SaleView | None:
    """As a view of its own. Of a decided request the table knows the article. Until then only the page's address does;
    without it, a sale of several articles shows none."""
    articles = view.articles()
    if len(articles) == 1:
        return articles[0]
    sku = parameter
    if status.outcome is not None:
        sku = Outcome.objects.filter(request_id=status.request_id).values_list("sku", flat=True).first() or parameter
    return next((each for each in articles if each.sku == sku), None)


def _sale_parameter(request: HttpRequest) -> str:
    text = request.GET.get("sale", "")
    return text if text.isdecimal() and len(text) <= SALE_DIGITS_MAX else ""


def _sale_of(status: PurchaseStatus, sale_parameter: str) -> tuple[SaleView | None, int]:
    """The sale and the time. The page works without the sale. Until a request is decided, only the page's address says
    which sale it is for."""
    sale_id = status.outcome.sale_id if status.outcome is not None else int(sale_parameter or 0)
    try:
        return sales.current_views().get(sale_id), redis_clock.now_ms()
    except Problem:  # Redis is unavailable; the outcome came from the table
        return None, int(time.time() * 1000)
