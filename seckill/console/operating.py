"""Operators' words over HTTP: parse, speak one verb, say on the board what came of it. The verbs audit themselves; what
goes to the stack is audited here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_POST
from redis import Redis

from inventory import operating as inventory
from inventory.models import Stock
from orders import refunding
from orders.payments.provider import ProviderDown
from seckill.audit.trail import acting, listed
from seckill.console.permissions import demand
from seckill.console.staff import for_operators
from seckill.stack import control
from seckill.stack.control import StackFault
from seckill.stack.services import Layout
from seckill.streams import switches
from seckill.streams.switches import NotOptional

STATES = {"open": "open", "pause": "paused", "close": "closed"}
STACK_WORDS = ("start", "stop", "kill", "scale")
MOST_AUDITED = 200


class Refused(Exception):
    """Says why, in the operator's language."""


# ── the sale ─────────────────────────────────────────────────────────────────────────────────────


@require_POST
@for_operators
def sale(request: HttpRequest, sale_id: int) -> HttpResponse:
    verb = request.POST.get("verb", "")
    demand(request, f"sale {verb}")

    def speak() -> str:
        if verb == "adjust":
            stock = Stock.objects.filter(sale_id=sale_id).order_by("id").first()
            if stock is None:
                raise Refused(gettext("There is no such sale."))
            stock = inventory.adjust(sale_id, stock.sku, _whole(request.POST.get("units", "")))
            return gettext("%(units)d units are available now.") % {"units": stock.available}
        if verb not in STATES:
            raise Refused(gettext("There is no such verb."))
        inventory.set_state(sale_id, STATES[verb])
        return gettext("Sale %(sale)d: %(verb)s, done.") % {"sale": sale_id, "verb": verb}

    return _spoken(request, speak)


@require_POST
@for_operators
def refund(request: HttpRequest) -> HttpResponse:
    demand(request, "refund")

    def speak() -> str:
        try:
            order_id = UUID(request.POST.get("order", "").strip())
        except ValueError as bad:
            raise Refused(gettext("That is no order's id.")) from bad
        returns = request.POST.get("return_units") == "on"
        owed = refunding.refund(order_id, return_units=returns, because=request.POST.get("because", "")[:500])
        try:
            is_back = refunding.give_back(owed.payment_id)
        except ProviderDown:
            is_back = False
        return gettext("Refunded; the money is back.") if is_back else gettext("Refunded; the money is owed.")

    return _spoken(request, speak)


@require_POST
@for_operators
def switch_group(request: HttpRequest) -> HttpResponse:
    demand(request, "switch")

    def speak() -> str:
        group, on = request.POST.get("group", ""), request.POST.get("on") == "1"
        changed = switches.switch(group, on=on)
        return gettext("Done.") if changed else gettext("It was so already.")

    return _spoken(request, speak)


# ── the stack ────────────────────────────────────────────────────────────────────────────────────


@require_POST
@for_operators
def stack(request: HttpRequest) -> HttpResponse:
    demand(request, f"stack {request.POST.get('word', '')}")

    def speak() -> str:
        word, name = request.POST.get("word", ""), request.POST.get("name", "")[:60]
        if word not in STACK_WORDS or not name:
            raise Refused(gettext("There is no such word."))
        order: dict[str, Any] = {"word": word}
        if word == "scale":
            order |= {"service": name, "count": _whole(request.POST.get("count", ""))}
        else:
            order |= {"name": name}
        return _tell_stack(order)

    return _spoken(request, speak)


def _tell_stack(order: dict[str, Any]) -> str:
    if not settings.ENVIRONMENT.stack_folder:
        raise Refused(gettext("This console belongs to no stack that it could tell."))
    target = str(order.get("name", order.get("service")))
    more = {"count": order["count"]} if "count" in order else {}
    with acting(f"stack {order['word']}", target, **more) as act:
        try:
            answer = control.ask(Layout(Path(settings.ENVIRONMENT.stack_folder)), order)
        except OSError as gone:
            raise Refused(gettext("The stack does not answer.")) from gone
        act.result = str(answer.get("error", act.result))
        if "error" in answer:
            raise Refused(str(answer["error"]))
    return gettext("%(word)s %(name)s: done.") % {"word": order["word"], "name": target}


# ── faults, in development ───────────────────────────────────────────────────────────────────────


class Fault(NamedTuple):
    """What the button does, and what should happen."""

    name: str
    does: str | Promise
    then: str | Promise
    inject: Callable[[], object]


def _kill(name: str) -> Callable[[], object]:
    return lambda: _tell_stack({"word": "kill", "name": name})


def _flush() -> None:
    with acting("fault redis-flushall", "redis"):
        for url in {getattr(settings.ENVIRONMENT, f"{use}_redis_url") for use in ("admission", "gate", "celery")}:
            with Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2) as redis:
                redis.flushall()


FAULTS = (
    Fault(
        "kill-inventory",
        _("kill -9 of all inventory consumers"),
        _("The backlog grows and is worked off when they are back; nothing is sold twice, nothing is lost."),
        _kill("inventory"),
    ),
    Fault(
        "kill-orders",
        _("kill -9 of all orders consumers"),
        _("Reservations wait for their orders, then each gets exactly one."),
        _kill("orders"),
    ),
    Fault(
        "kill-broker",
        _("kill -9 of the broker"),
        _("Purchases are answered 503 for seconds; what was acknowledged is still there."),
        _kill("mqcore"),
    ),
    Fault(
        "kill-celery",
        _("kill -9 of the Celery worker"),
        _("Messages are late; each is told once."),
        _kill("celery"),
    ),
    Fault(
        "redis-flushall",
        _("FLUSHALL in Redis"),
        _("The gate closes, is counted anew from the ledger, and opens; old requests keep their outcomes."),
        _flush,
    ),
)


def faults() -> tuple[Fault, ...]:
    """None of them where it is not for play."""
    return FAULTS if settings.ENVIRONMENT.development and settings.ENVIRONMENT.stack_folder else ()


@require_POST
@for_operators
def fault(request: HttpRequest) -> HttpResponse:
    chosen = next((each for each in faults() if each.name == request.POST.get("fault")), None)
    if chosen is None:
        raise Http404
    demand(request, "fault")

    def speak() -> str:
        chosen.inject()
        return f"{chosen.does}. {chosen.then}"

    return _spoken(request, speak)


# ── the trail ────────────────────────────────────────────────────────────────────────────────────


@require_GET
@for_operators
def audit(request: HttpRequest) -> HttpResponse:
    return render(request, "console/audit.html", {"entries": listed(most=MOST_AUDITED)[::-1]})


def _spoken(request: HttpRequest, speak: Callable[[], str]) -> HttpResponse:
    """Back to where the word was spoken, with what came of it."""
    try:
        said = {"text": speak(), "good": True}
    except (Refused, inventory.Refused, refunding.Refused, NotOptional, StackFault) as refused:
        said = {"text": str(refused), "good": False}
    request.session["said"] = said
    return HttpResponseRedirect(reverse("console:board"), status=303)


def _whole(text: str) -> int:
    try:
        number = int(text)
    except ValueError as bad:
        raise Refused(gettext("That is no whole number.")) from bad
    if abs(number) > 1_000_000:
        raise Refused(gettext("That is too many."))
    return number
