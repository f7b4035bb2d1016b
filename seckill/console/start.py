"""The front page, `/start`: what runs, the sale, the last report, and three things to do next.

It exists where the console does. Outside development it shows nothing of the stack without a sign-in. Its forms go to
the console's own operations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.conf import settings
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from gateway import redis_clock, sales
from gateway.pages.sale_phase import SalePhase, sale_phase
from inventory.events import SaleView
from seckill.console import rush
from seckill.console.permissions import permissions_of
from seckill.console.processes import read_processes
from seckill.console.reports.queue import is_service_running
from seckill.console.reports.views import last_report
from seckill.console.stack_operations import available_faults
from seckill.console.staff import check_host
from seckill.console.watch.sign_log import ProcessState
from seckill.web.pages import html_page
from seckill.web.problems import Problem
from seckill.web.running_sale import importance


class RunningStack(NamedTuple):
    """`missing`: the names of the processes that should be up and are not."""

    up: int
    total: int
    missing: list[str]


class ShownSale(NamedTuple):
    """The units of all its articles together."""

    view: SaleView
    phase: SalePhase
    now_ms: int
    available: int
    reserved: int
    sold: int


@require_GET
@html_page
def start(request: HttpRequest) -> HttpResponse:
    check_host(request)
    permissions = permissions_of(request.user)
    context: dict[str, Any] = {
        "may": {permission.value: True for permission in permissions},
        "is_shown": bool(permissions) or settings.ENVIRONMENT.development,
    }
    if context["is_shown"]:
        context |= {
            "has_stack": bool(settings.ENVIRONMENT.stack_folder),
            "stack": read_stack(),
            "sale": find_sale(),
            "report": last_report(),
            "makes_reports": is_service_running(),
            "faults": available_faults(),
            "locust": rush.locust_state().value,
            "locust_url": settings.ENVIRONMENT.locust_url,
            "buyers": rush.BUYERS,
            "buyers_max": rush.BUYERS_MAX,
            "seconds": rush.SECONDS,
            "seconds_max": rush.SECONDS_MAX,
        }
    return render(request, "console/start.html", context)


def read_stack() -> RunningStack | None:
    """None without a stack, or while it gives no answer. Containers that were stopped in order are left out."""
    try:
        rows = read_processes() or []
    except (OSError, KeyError, ValueError, DatabaseError):
        return None
    if not settings.ENVIRONMENT.stack_folder:
        rows = [row for row in rows if row["state"] != ProcessState.STOPPED]
    missing = [row["name"] for row in rows if row["state"] != ProcessState.UP]
    return RunningStack(len(rows) - len(missing), len(rows), missing) if rows else None


def find_sale() -> ShownSale | None:
    """The running sale, else the next one; None without any, or while Redis does not answer."""
    try:
        views = sales.list_sales()
    except Problem:
        return None
    now_ms = redis_clock.now_ms()
    views.sort(key=lambda view: importance(view.id, view.state, view.opens_at_ms, view.closes_at_ms, now_ms))
    return _shown(views[0], now_ms) if views else None


def _shown(view: SaleView, now_ms: int) -> ShownSale:
    articles = view.articles()
    return ShownSale(
        view, sale_phase(view, now_ms), now_ms, sum(each.available for each in articles),
        sum(each.reserved for each in articles), sum(each.sold for each in articles),
    )  # fmt: skip
