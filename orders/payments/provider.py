"""The client of the payment provider. Every request carries an idempotency key: asking twice is asking once."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings

PATIENCE_S = 5.0


class ProviderDown(ConnectionError):
    """No answer, or none that can be understood: nobody knows what happened, so ask again later."""


class Answer(NamedTuple):
    """What the provider says of a payment: open, captured, voided, refunded, or unknown."""

    state: str
    reference: str


def open_payment(payment_id: UUID, order_id: UUID, amount: int) -> Answer:
    callback = f"{settings.ENVIRONMENT.public_url}/api/v1/payments/callback"
    body = {"id": str(payment_id), "order_id": str(order_id), "amount": amount, "callback_url": callback}
    return _ask("POST", "/payments", body)


def look_up(payment_id: UUID) -> Answer:
    return _ask("GET", f"/payments/{payment_id}", None)


def void(payment_id: UUID) -> Answer:
    """No money any more, unless it was captured before: then the answer says so."""
    return _ask("POST", f"/payments/{payment_id}/void", {})


def refund(payment_id: UUID) -> Answer:
    """Give captured money back; the payment's id is the key, so once."""
    return _ask("POST", f"/payments/{payment_id}/refund", {"key": f"refund-{payment_id}"})


def _ask(method: str, path: str, body: dict[str, Any] | None) -> Answer:
    request = urllib.request.Request(
        settings.ENVIRONMENT.provider_url + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            told = json.load(answer)
        return Answer(str(told["state"]), str(told.get("reference", "")))
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return Answer("unknown", "")
        raise ProviderDown(f"{method} {path}: {error.code}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProviderDown(f"{method} {path}: {error}") from error
