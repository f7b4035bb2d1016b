"""Codec: what every message looks like: JSON with an identity, a type, a version, a cause and an origin.

`origin` is the place of the purchase request in its topic: the logical order number of everything that follows from
it. `cause` is the event that led to this one. Old and new schema versions are read side by side: an old body is brought
up to date step by step (`current`), and what a reader does not know it refuses as `BadEnvelope`, never guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import orjson


class BadEnvelope(ValueError):
    """Bytes that are no message of ours; says what is wrong with them."""


class Origin(NamedTuple):
    """Where the purchase request stands in the log."""

    topic: str
    partition: int
    offset: int


class Envelope(NamedTuple):
    event_id: UUID
    type: str
    version: int
    body: Mapping[str, Any]
    cause: UUID | None = None
    origin: Origin | None = None

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


def new(type: str, version: int, body: Mapping[str, Any], *, cause: UUID | None, origin: Origin | None) -> Envelope:
    return Envelope(uuid4(), type, version, body, cause, origin)


def decode(content: bytes | None) -> Envelope:
    """`BadEnvelope` unless it is whole: every field there and of its type."""
    if content is None:
        raise BadEnvelope("a message without a value")
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
            None if origin is None else Origin(str(origin[0]), int(origin[1]), int(origin[2])),
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise BadEnvelope(f"no envelope: {error!r}") from error
    if not _well_typed(fields):
        raise BadEnvelope("type, version or body has the wrong form")
    return envelope


Upcaster = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""From a body of one version to the same body in the next one."""


def current(envelope: Envelope, version: int, steps: Mapping[int, Upcaster]) -> Mapping[str, Any]:
    """The body as `version` has it; `steps[n]` leads from n to n + 1. So readers are brought up to date first, and
    writers when no reader is left that would refuse them."""
    body = envelope.body
    if not 1 <= envelope.version <= version:
        raise BadEnvelope(f"{envelope.type} {envelope.version}: known are versions 1 to {version}")
    try:
        for number in range(envelope.version, version):
            body = steps[number](body)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise BadEnvelope(f"{envelope.type} {envelope.version}: cannot be read as {version}: {error!r}") from error
    return body


def _well_typed(fields: Mapping[str, Any]) -> bool:
    return isinstance(fields["type"], str) and type(fields["version"]) is int and isinstance(fields["body"], dict)
