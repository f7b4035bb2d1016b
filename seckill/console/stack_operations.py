"""Operations on the stack's processes, and the fault buttons in development. They are audited here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.http import Http404, HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from seckill.audit.trail import audited
from seckill.console.notices import OperationRefused, operation, parse_integer
from seckill.console.permissions import require_permission
from seckill.resilience import redis_client
from seckill.stack import control
from seckill.stack.services import Layout

NAME_CHARACTERS_MAX = 60
RESULTS = {
    "start": _("%(name)s started."),
    "stop": _("%(name)s stopped."),
    "kill": _("%(name)s killed."),
    "scale": _("%(name)s scaled."),
}


@operation
def stack(request: HttpRequest) -> str:
    name = request.POST.get("command", "")
    require_permission(request, f"stack {name}")
    return send_to_stack(_parse_command(request, name))


def _parse_command(request: HttpRequest, name: str) -> dict[str, Any]:
    target = request.POST.get("name", "")[:NAME_CHARACTERS_MAX]
    if name not in RESULTS or not target:
        raise OperationRefused(gettext("This operation does not exist."))
    if name == "scale":
        return {"command": name, "service": target, "count": parse_integer(request.POST.get("count", ""))}
    return {"command": name, "name": target}


def send_to_stack(command: dict[str, Any]) -> str:
    if not settings.ENVIRONMENT.stack_folder:
        raise OperationRefused(gettext("This console is not attached to a stack, so it cannot control processes."))
    target = str(command.get("name", command.get("service")))
    more = {"count": command["count"]} if "count" in command else {}
    with audited(f"stack {command['command']}", target, **more) as action:
        try:
            answer = control.send_command(Layout(Path(settings.ENVIRONMENT.stack_folder)), command)
        except OSError as fault:
            raise OperationRefused(gettext("The stack is not answering.")) from fault
        action.result = str(answer.get("error", action.result))
        if "error" in answer:
            raise OperationRefused(_refusal(answer))
    return str(RESULTS[command["command"]]) % {"name": target}


def _refusal(answer: control.Reply) -> str:
    """The stack's refusal in the operator's language; a fault without a template as it is."""
    if "template" not in answer:
        return str(answer["error"])
    return gettext(str(answer["template"])).format(**answer["facts"])


class Fault(NamedTuple):
    """`does`: what the button does; `effect`: what should happen then."""

    name: str
    does: str | Promise
    effect: str | Promise
    inject: Callable[[], object]


def _kill(name: str) -> Callable[[], object]:
    return lambda: send_to_stack({"command": "kill", "name": name})


def _empty_redis() -> None:
    with audited("fault redis-flushall", "redis"):
        for url in {getattr(settings.ENVIRONMENT, f"{use}_redis_url") for use in ("admission", "gate", "celery")}:
            with redis_client.connect(url, timeout_s=2) as redis:
                redis.flushall()


FAULTS = (
    Fault(
        "kill-inventory",
        _("Kill all inventory consumers"),
        _("The backlog grows and is worked off after they restart. Nothing is oversold or lost."),
        _kill("inventory"),
    ),
    Fault(
        "kill-orders",
        _("Kill all orders consumers"),
        _("Reservations wait for their orders. Each gets exactly one."),
        _kill("orders"),
    ),
    Fault(
        "kill-broker",
        _("Kill the broker"),
        _("For a few seconds purchases are answered with 503. Acknowledged requests are not lost."),
        _kill("mqcore"),
    ),
    Fault(
        "kill-celery",
        _("Kill the Celery worker"),
        _("Messages are late. Each is sent once."),
        _kill("celery"),
    ),
    Fault(
        "redis-flushall",
        _("Empty Redis"),
        _("The gate closes, is rebuilt from the ledger and opens again. Earlier requests keep their outcomes."),
        _empty_redis,
    ),
)


def available_faults() -> tuple[Fault, ...]:
    """Only in development and with a stack."""
    return FAULTS if settings.ENVIRONMENT.development and settings.ENVIRONMENT.stack_folder else ()


@operation
def fault(request: HttpRequest) -> str:
    chosen = next((each for each in available_faults() if each.name == request.POST.get("fault")), None)
    if chosen is None:
        raise Http404
    require_permission(request, "fault")
    chosen.inject()
    return f"{chosen.does}. {chosen.effect}"
