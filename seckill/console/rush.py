"""Starts a rush with the Locust that runs beside the stack, and asks it whether one is running.

Locust is a program of its own (`make rush`), because it plays the outside world. The console knows only its address,
SECKILL_LOCUST_URL, and sends it the sale, the number of buyers and the duration.
"""

from __future__ import annotations

import json
import time
import urllib.request
from enum import StrEnum
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import gettext

from seckill.audit.trail import audited
from seckill.console.notices import OperationRefused, operation, parse_integer
from seckill.console.permissions import require_permission

PATIENCE_S = 2.0
START_SECONDS_MAX = 5.0
ANSWER_BYTES_MAX = 4 * 1024 * 1024
BUYERS_MAX, SECONDS_MAX = 5000, 600
BUYERS, SECONDS = 200, 60
"""What the form proposes."""
START_SECONDS = 5
"""All buyers have started after so many seconds."""


class LocustState(StrEnum):
    ABSENT = "absent"  # it does not answer
    IDLE = "idle"
    RUNNING = "running"


def locust_state() -> LocustState:
    try:
        state = _call("/stats/requests")["state"]
    except (OSError, ValueError, KeyError):
        return LocustState.ABSENT
    return LocustState.RUNNING if state in ("spawning", "running", "cleanup", "stopping") else LocustState.IDLE


@operation
def start_rush(request: HttpRequest) -> str:
    require_permission(request, "rush")
    sale, buyers, seconds = (parse_integer(request.POST.get(name, "")) for name in ("sale", "buyers", "seconds"))
    if not (sale > 0 and 1 <= buyers <= BUYERS_MAX and 1 <= seconds <= SECONDS_MAX):
        text = gettext("A rush needs a sale, 1 to %(buyers)d buyers, and 1 to %(seconds)d seconds.")
        limits = text % {"buyers": BUYERS_MAX, "seconds": SECONDS_MAX}
        raise OperationRefused(limits)
    with audited("rush", f"sale {sale}", buyers=buyers, seconds=seconds):
        _start(sale, buyers, seconds)
    return gettext("%(buyers)d buyers are coming to sale %(sale)d for %(seconds)d seconds.") % {
        "buyers": buyers,
        "sale": sale,
        "seconds": seconds,
    }


def _start(sale: int, buyers: int, seconds: int) -> None:
    match locust_state():
        case LocustState.ABSENT:
            raise OperationRefused(gettext("Locust is not answering. Start it with: make rush"))
        case LocustState.RUNNING:
            raise OperationRefused(
                gettext("Locust is already running a rush. Wait for its end, or stop it on its page.")
            )
        case LocustState.IDLE:
            pass
    rate = max(1, buyers // START_SECONDS)
    form = {"user_count": buyers, "spawn_rate": rate, "run_time": f"{seconds}s", "sale": sale}
    try:
        answer = _call("/swarm", form)
    except (OSError, ValueError) as error:
        answer = {"message": error}
    if not answer.get("success"):
        fault = gettext("Locust did not start the rush: %(fault)s") % {"fault": str(answer.get("message"))[:200]}
        raise OperationRefused(fault)
    _await_start()


def _await_start() -> None:
    """Locust accepts a rush before it says that one is running. Meanwhile the page would offer to start another."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while locust_state() is LocustState.IDLE and time.monotonic() < deadline:
        time.sleep(0.1)


def _call(path: str, form: dict[str, Any] | None = None) -> dict[str, Any]:
    """Raises `OSError` or `ValueError`."""
    address = f"{settings.ENVIRONMENT.locust_url.rstrip('/')}{path}"
    data = None if form is None else urlencode(form).encode()
    request = urllib.request.Request(address, data=data, headers={"Accept": "application/json"})
    # The scheme is http or https: seckill/config/environment.py checks it.
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:  # nosec B310
        answer = json.loads(response.read(ANSWER_BYTES_MAX))
    if not isinstance(answer, dict):
        raise ValueError("the answer is not an object")
    return answer
