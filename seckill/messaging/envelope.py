"""Codec: the envelope of every message: JSON with an id, a type, a version, a body, a cause and an origin.

`origin` is the position of the purchase request in its topic; it orders everything that follows from the request.
`cause` is the event that led to this one. Bodies of older versions are converted by seckill/messaging/versions.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import orjson

from seckill.messaging.record_position import RecordPosition


class BadEnvelope(ValueError):
    """The bytes are not a valid message; the text says why."""


class Envelope(NamedTuple):
    event_id: UUID
    type: str
    version: int
    body: Mapping[str, Any]
    cause: UUID | None = None
    origin: RecordPosition | None = None

    def encode(self) -> bytes:
        fields: dict[str, Any] = {
            "event_id": self.event_id,
            "type": self.type,
            "version": self.version,
            "body": self.body,
        }
        if self.cause is not None:
            fields["cause"] = self.cause
        if self.origin is not None:
            fields["origin"] = list(self.origin)
        return orjson.dumps(fields)


def new_envelope(
    type: str, version: int, body: Mapping[str, Any], *, cause: UUID | None, origin: RecordPosition | None
) -> Envelope:
    return Envelope(uuid4(), type, version, body, cause, origin)


def decode_envelope(content: bytes | None) -> Envelope:
    """Raises `BadEnvelope` unless every field is present and has the right type."""
    if content is None:
        raise BadEnvelope("the message has no value")
    try:
        fields = orjson.loads(content)
        origin = fields.get("origin")
        cause = fields.get("cause")
        envelope = Envelope(
            UUID(fields["event_id"]),
            fields["type"],
            fields["version"],
            fields["body"],
            None if cause is None else UUID(cause),
            None if origin is None else RecordPosition(str(origin[0]), int(origin[1]), int(origin[2])),
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise BadEnvelope(f"not an envelope: {error!r}") from error
    if not _well_typed(fields):
        raise BadEnvelope("type, version or body has the wrong type")
    return envelope


def _well_typed(fields: Mapping[str, Any]) -> bool:
    return isinstance(fields["type"], str) and type(fields["version"]) is int and isinstance(fields["body"], dict)
