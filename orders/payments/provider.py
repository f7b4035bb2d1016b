"""Shell: the client of the payment provider: a deadline for each question, a few tries in it, a breaker around all.

Every request carries an idempotency key (the payment's id), so asking twice is asking once: that is what makes it safe
to try again when an answer was lost. What is not known by the deadline is `ProviderDown`: ask again later, and decide
nothing.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings

from seckill import calls
from seckill.breaker import Breaker

DEADLINE_S = 5.0
TRY_S = 2.0
FIRST_PAUSE_S = 0.1
MOST_TRIES = 3

CALLS_MAX = 32

_permits = threading.BoundedSemaphore(CALLS_MAX)
breaker = Breaker(most_failures=5, open_s=3.0)


class ProviderDown(ConnectionError):
    """No answer, or none that can be understood: nobody knows what happened, so ask again later."""


class Refused(ProviderDown):
    """It has understood and says no (4xx): asking the same again is of no use."""


class Unknown(Refused):
    """It knows no such payment."""


class Answer(NamedTuple):
    """What the provider says of a payment: open, captured, voided, refunded, or unknown."""

    state: str
    reference: str


class Movement(NamedTuple):
    """One line of the provider's log; `number` only grows."""

    number: int
    what: str  # opened, captured, voided, refunded
    payment_id: UUID
    order_id: str
    amount: int


class Page(NamedTuple):
    """`last` is the number of the newest line there is, in this page or not."""

    movements: Sequence[Movement]
    last: int


def open_payment(payment_id: UUID, order_id: UUID, amount: int) -> Answer:
    base = settings.ENVIRONMENT.callback_url or settings.ENVIRONMENT.public_url
    callback = f"{base.rstrip('/')}/api/v1/payments/callback"
    body = {"id": str(payment_id), "order_id": str(order_id), "amount": amount, "callback_url": callback}
    return _answer("POST", "/payments", body)


def look_up(payment_id: UUID) -> Answer:
    return _answer("GET", f"/payments/{payment_id}", None)


def void(payment_id: UUID) -> Answer:
    """No money any more, unless it was captured before: then the answer says so."""
    return _answer("POST", f"/payments/{payment_id}/void", {})


def refund(payment_id: UUID) -> Answer:
    """Give captured money back; the payment's id is the key, so once."""
    return _answer("POST", f"/payments/{payment_id}/refund", {"key": f"refund-{payment_id}"})


def movements(after: int, most: int) -> Page:
    """The provider's log behind a line, oldest first."""
    path = f"/movements?after={after}&limit={most}"
    told = _ask("GET", path, None)
    try:
        lines = [
            Movement(
                int(line["number"]), str(line["what"]), UUID(line["payment"]), str(line["order"]), int(line["amount"])
            )
            for line in told["movements"]
        ]
        return Page(lines, int(told["last"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProviderDown(f"GET {path}: {error!r}") from error


def _answer(method: str, path: str, body: dict[str, Any] | None) -> Answer:
    try:
        told = _ask(method, path, body)
        return Answer(str(told["state"]), str(told.get("reference", "")))
    except Unknown:
        return Answer("unknown", "")
    except KeyError as error:
        raise ProviderDown(f"{method} {path}: {error!r}") from error


def _ask(method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
    """A bulkhead: so many threads of a process wait for the provider at most, and the rest of the shop goes on."""
    if not _permits.acquire(blocking=False):
        raise ProviderDown(f"{method} {path}: not asked, {CALLS_MAX} calls are under way")
    try:
        return _ask_now(method, path, body)
    finally:
        _permits.release()


def _ask_now(method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
    give_up = time.monotonic() + DEADLINE_S
    for number in range(MOST_TRIES):
        if not breaker.may_try(time.monotonic()):
            raise ProviderDown(f"{method} {path}: not asked, it has failed too often just now")
        try:
            told = _try(method, path, body, min(TRY_S, max(0.1, give_up - time.monotonic())))
        except Refused:
            breaker.succeeded()  # it answers, after all
            raise
        except ProviderDown:
            breaker.failed(time.monotonic())
            pause_s = FIRST_PAUSE_S * 3**number * random.uniform(0.5, 1.5)
            if number == MOST_TRIES - 1 or time.monotonic() + pause_s >= give_up:
                raise
            time.sleep(pause_s)
        else:
            breaker.succeeded()
            return told
    raise AssertionError("the last try raises or returns")


def _try(method: str, path: str, body: dict[str, Any] | None, timeout_s: float) -> dict[str, Any]:
    try:
        answered = calls.call(method, settings.ENVIRONMENT.provider_url + path, body, timeout_s)
    except calls.NoAnswer as fault:
        raise ProviderDown(str(fault)) from fault
    if answered.is_refusal:
        raise (Unknown if answered.status == 404 else Refused)(f"{method} {path}: {answered.status}")
    try:
        told = None if answered.is_failure else json.loads(answered.content)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise ProviderDown(f"{method} {path}: {answered.status}, and no answer that can be understood")
    return told
