"""The gateway's event: a purchase was requested. Other packages import only this module of the gateway."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from seckill.messaging.envelope import BadEnvelope, Envelope
from seckill.messaging.versions import upgrade_body

PURCHASE_REQUESTED = "PurchaseRequested"
VERSION = 1

UNITS_MAX = 1_000_000
INT_MAX, ID_MAX = 2**31 - 1, 2**63 - 1
"""Limits of inventory's columns. A request beyond them is refused when it is parsed, because it could not be
decided."""
USER_CHARACTERS_MAX, SKU_CHARACTERS_MAX = 200, 100
TIME_MS_MAX = 9_224_318_015_999_999
"""The last timestamp of Postgres, in the year 294276."""


class PurchaseRequested(NamedTuple):
    """A buyer was admitted. Times are milliseconds of Redis TIME."""

    request_id: UUID
    user_id: str
    sale_id: int
    sku: str
    quantity: int
    admitted_at_ms: int
    deadline_ms: int

    def envelope(self) -> Envelope:
        """The event id is the request id: sending a request twice publishes the same event twice."""
        body = dict(zip(self._fields, (str(self.request_id), *self[1:]), strict=True))
        return Envelope(self.request_id, PURCHASE_REQUESTED, VERSION, body)


def parse_purchase_request(envelope: Envelope) -> PurchaseRequested:
    """Raises `BadEnvelope`."""
    if envelope.type != PURCHASE_REQUESTED:
        raise BadEnvelope(f"expected {PURCHASE_REQUESTED}, got {envelope.type}")
    body = upgrade_body(envelope.type, envelope.version, envelope.body, newest=VERSION)
    try:
        requested = PurchaseRequested(
            envelope.event_id,
            _parse_text(body["user_id"], USER_CHARACTERS_MAX),
            _parse_integer(body["sale_id"], -ID_MAX, ID_MAX),
            _parse_text(body["sku"], SKU_CHARACTERS_MAX),
            _parse_integer(body["quantity"], -INT_MAX, INT_MAX),
            _parse_integer(body["admitted_at_ms"], 0, TIME_MS_MAX),
            _parse_integer(body["deadline_ms"], 0, TIME_MS_MAX),
        )
        is_same = body["request_id"] == str(envelope.event_id)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise BadEnvelope(f"malformed purchase request: {error!r}") from error
    if not is_same:
        raise BadEnvelope("the event id differs from the request id")
    return requested


def _parse_text(value: Any, characters_max: int) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= characters_max:
        raise ValueError(f"must be a text of 1 to {characters_max} characters, got {value!r:.100}")
    if "\0" in value or (not value.isprintable() and any("\ud800" <= each <= "\udfff" for each in value)):
        raise ValueError(f"must not contain NUL or surrogates, which Postgres cannot store, got {value!r:.100}")
    return value


def _parse_integer(value: Any, smallest: int, largest: int) -> int:
    if type(value) is not int or not smallest <= value <= largest:
        raise ValueError(f"must be an integer from {smallest} to {largest}, got {value!r:.100}")
    return value
