"""HTTP of the shop: what became of one attempt. The page never guesses: it shows what `following` says."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from gateway import following, places, sales
from gateway.following import Followed
from gateway.outcomes import REFUSED
from gateway.pages import attempts
from gateway.pages.shop import kind
from seckill.pages import for_buyers, page
from seckill.problems import Problem

SOON_S, LATER_S = 2, 10
MOST_DIGITS = 10


@require_GET
@page
@for_buyers
def purchase(request: HttpRequest, user_id: str, request_id: UUID) -> HttpResponse:
    place = attempts.signed_place(request_id, user_id, request.GET.get("place", ""))
    told = _told(request, user_id, request_id)
    stream = f"{settings.ENVIRONMENT.live_url}/api/v1/purchases/{request_id}/events?{urlencode({'place': place})}"
    more = urlencode({"place": place, "sale": told["asked_sale"], "paying": request.GET.get("paying", "")[:1]})
    told |= {
        "fragment_url": f"{reverse('purchase-now', args=[request_id])}?{more}",
        "events_url": stream if place and not told["is_over"] else "",
    }
    return render(request, "shop/purchase.html", told)


@require_GET
@page
@for_buyers
def purchase_now(request: HttpRequest, user_id: str, request_id: UUID) -> HttpResponse:
    """The part of the page that changes, for its script."""
    return render(request, "shop/outcome.html", _told(request, user_id, request_id))


def _told(request: HttpRequest, user_id: str, request_id: UUID) -> dict[str, Any]:
    followed = following.follow(request_id, places.opened(request_id, request.GET.get("place", "")))
    if followed is None or followed.user_id != user_id:
        raise Problem(404, "no-such-purchase", "You have no such request.")
    state = "QUEUED" if followed.shown is None else followed.shown.state
    over, estimate = attempts.is_over(followed), followed.estimate
    return {
        "request_id": request_id,
        "state": state,
        "shown": followed.shown,
        "estimate": estimate,
        "wait_ms": None if estimate is None else estimate.wait_ms,
        "deadline_ms": followed.deadline_ms,
        "is_refused": state in REFUSED,
        "is_over": over,
        "refresh_s": SOON_S if state in ("QUEUED", "RESERVED") else LATER_S,
        **_sale(followed, request.GET.get("sale", "")),
    }


def _sale(followed: Followed, asked: str) -> dict[str, Any]:
    """What is bought, and what is left of it; nothing of it is needed to tell the outcome. Until a request is decided
    only its address says of which sale it is."""
    asked = asked if asked.isdecimal() and len(asked) < MOST_DIGITS else ""
    number = followed.shown.sale_id if followed.shown is not None else int(asked or 0)
    told = {"sale": None, "kind": None, "asked_sale": asked}
    try:
        view = sales.views().get(number)
    except Problem:  # Redis is away; the outcome came from the table
        return told | {"now_ms": int(time.time() * 1000)}
    now_ms = sales.now_ms()
    return told | {"sale": view, "kind": None if view is None else kind(view, now_ms), "now_ms": now_ms}
