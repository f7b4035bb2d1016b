"""Shell: client of the payment provider, with a deadline per call, a few retries, and a circuit breaker.

Each request carries the payment's id as idempotency key, so it is safe to repeat a request whose response was lost. If
the outcome is unknown at the deadline, the call raises `ProviderDown`: decide nothing and ask again later.
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

from seckill.resilience import http_client
from seckill.resilience.circuit_breaker import CircuitBreaker

CALL_SECONDS_MAX = 5.0
TRY_SECONDS_MAX = 2.0
RETRY_PAUSE_SECONDS_MIN = 0.1
TRIES_MAX = 3
CONCURRENT_CALLS_MAX = 32

_permits = threading.BoundedSemaphore(CONCURRENT_CALLS_MAX)
breaker = CircuitBreaker(failures_max=5, open_seconds=3.0)


class ProviderDown(ConnectionError):
    """No usable response. The call may have taken effect, so ask again later."""


class ProviderRejected(ProviderDown):
    """The provider understood the request and rejected it (4xx). Repeating it is useless."""


class PaymentUnknown(ProviderRejected):
    """The provider has no such payment."""


class ProviderPayment(NamedTuple):
    """`state` is open, captured, voided, refunded or unknown."""

    state: str
    reference: str


class Movement(NamedTuple):
    """One line of the provider's log. `number` only grows."""

    number: int
    kind: str  # opened, captured, voided, refunded
    payment_id: UUID
    order_id: str
    amount: int


class MovementPage(NamedTuple):
    """`last` is the number of the newest line of the whole log."""

    movements: Sequence[Movement]
    last: int


def open_payment(payment_id: UUID, order_id: UUID, amount: int) -> ProviderPayment:
    base = settings.ENVIRONMENT.callback_url or settings.ENVIRONMENT.public_url
    callback = f"{base.rstrip('/')}/api/v1/payments/callback"
    body = {"id": str(payment_id), "order_id": str(order_id), "amount": amount, "callback_url": callback}
    return _call_for_payment("POST", "/payments", body)


def get_payment(payment_id: UUID) -> ProviderPayment:
    return _call_for_payment("GET", f"/payments/{payment_id}", None)


def void_payment(payment_id: UUID) -> ProviderPayment:
    """A voided payment can no longer be captured. If it was captured before, the returned state says so."""
    return _call_for_payment("POST", f"/payments/{payment_id}/void", {})


def refund_payment(payment_id: UUID) -> ProviderPayment:
    """Refund a captured payment, once: its id is the idempotency key."""
    return _call_for_payment("POST", f"/payments/{payment_id}/refund", {"key": f"refund-{payment_id}"})


def list_movements(after: int, limit: int) -> MovementPage:
    """The lines of the provider's log after number `after`, oldest first."""
    path = f"/movements?after={after}&limit={limit}"
    response = _call("GET", path, None)
    try:
        lines = [
            Movement(
                int(line["number"]), str(line["what"]), UUID(line["payment"]), str(line["order"]), int(line["amount"])
            )
            for line in response["movements"]
        ]
        return MovementPage(lines, int(response["last"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProviderDown(f"GET {path}: cannot read the response: {error!r}") from error


def _call_for_payment(method: str, path: str, body: dict[str, Any] | None) -> ProviderPayment:
    try:
        response = _call(method, path, body)
        return ProviderPayment(str(response["state"]), str(response.get("reference", "")))
    except PaymentUnknown:
        return ProviderPayment("unknown", "")
    except KeyError as error:
        raise ProviderDown(f"{method} {path}: the response lacks {error}") from error


def _call(method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
    """A bulkhead limits how many threads of a process wait for the provider, so the others keep serving buyers."""
    if not _permits.acquire(blocking=False):
        raise ProviderDown(f"{method} {path}: not sent, because {CONCURRENT_CALLS_MAX} calls are already running")
    try:
        return _call_with_retries(method, path, body)
    finally:
        _permits.release()


def _call_with_retries(method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
    deadline = time.monotonic() + CALL_SECONDS_MAX
    for number in range(TRIES_MAX):
        if not breaker.allows_call(time.monotonic()):
            raise ProviderDown(f"{method} {path}: not sent, because recent calls failed (circuit breaker open)")
        try:
            response = _call_once(method, path, body, min(TRY_SECONDS_MAX, max(0.1, deadline - time.monotonic())))
        except ProviderRejected:
            breaker.record_success()  # a rejection is a response
            raise
        except ProviderDown:
            breaker.record_failure(time.monotonic())
            pause_s = RETRY_PAUSE_SECONDS_MIN * 3**number * random.uniform(0.5, 1.5)
            if number == TRIES_MAX - 1 or time.monotonic() + pause_s >= deadline:
                raise
            time.sleep(pause_s)
        else:
            breaker.record_success()
            return response
    raise AssertionError("the last try raises or returns")


def _call_once(method: str, path: str, body: dict[str, Any] | None, timeout_s: float) -> dict[str, Any]:
    try:
        response = http_client.call(method, settings.ENVIRONMENT.provider_url + path, body, timeout_s)
    except http_client.NoResponse as fault:
        raise ProviderDown(str(fault)) from fault
    if response.is_refusal:
        rejection = PaymentUnknown if response.status == 404 else ProviderRejected
        raise rejection(f"{method} {path}: status {response.status}")
    try:
        content = None if response.is_failure else json.loads(response.content)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ProviderDown(f"{method} {path}: status {response.status} without a JSON object")
    return content
