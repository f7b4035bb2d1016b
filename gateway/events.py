"""What the gateway says. Other packages import this module of the gateway and no other."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from seckill.envelope import BadEnvelope, Envelope

PURCHASE_REQUESTED = "PurchaseRequested"
VERSION = 1

MOST_UNITS = 1_000_000
INT_MAX, ID_MAX = 2**31 - 1, 2**63 - 1
"""What the columns of inventory hold. A request beyond them is refused when it is read: it could never be decided."""
USER_CHARACTERS_MAX, SKU_CHARACTERS_MAX = 200, 100
TIME_MS_MAX = 9_224_318_015_999_999
"""What Postgres' timestamps end with, in the year 294276."""


class PurchaseRequested(NamedTuple):
    """A buyer was admitted. Times are milliseconds of the one clock (Redis TIME)."""

    request_id: UUID
    user_id: str
    sale_id: int
    sku: str
    quantity: int
    admitted_at_ms: int
    deadline_ms: int

    def envelope(self) -> Envelope:
        """The event id is the request id: the same request is the same event, however often it is sent."""
        body = dict(zip(self._fields, (str(self.request_id), *self[1:]), strict=True))
        return Envelope(self.request_id, PURCHASE_REQUESTED, VERSION, body)


def read(envelope: Envelope) -> PurchaseRequested:
    if (envelope.type, envelope.version) != (PURCHASE_REQUESTED, VERSION):
        raise BadEnvelope(f"{envelope.type} {envelope.version} is no purchase request")
    body = envelope.body
    try:
        requested = PurchaseRequested(
            envelope.event_id,
            _text(body["user_id"], USER_CHARACTERS_MAX),
            _number(body["sale_id"], -ID_MAX, ID_MAX),
            _text(body["sku"], SKU_CHARACTERS_MAX),
            _number(body["quantity"], -INT_MAX, INT_MAX),
            _number(body["admitted_at_ms"], 0, TIME_MS_MAX),
            _number(body["deadline_ms"], 0, TIME_MS_MAX),
        )
        is_same = body["request_id"] == str(envelope.event_id)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise BadEnvelope(f"no purchase request: {error!r}") from error
    if not is_same:
        raise BadEnvelope("the event id is not the request id")
    return requested


def _text(value: Any, most: int) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise ValueError(f"must be a text of 1 to {most} characters, got {value!r:.100}")
    if "\0" in value or (not value.isprintable() and any("\ud800" <= each <= "\udfff" for each in value)):
        raise ValueError(f"must be a text that a database keeps, got {value!r:.100}")
    return value


def _number(value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"must be a whole number from {least} to {most}, got {value!r:.100}")
    return value
