"""W3C trace context: what a message causes belongs to the message's trace, without anybody passing it on by hand.

The loop enters the messages of a batch; `publish` finds the trace of an event by its cause. An event without a cause
that is known begins a trace of its own, named after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID, uuid5

HEADER = "traceparent"

_WELL_FORMED = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_known: ContextVar[Mapping[UUID, str]] = ContextVar("traces")


def root(event_id: UUID) -> str:
    """The trace that begins with an event: trace id and span id are the event's own."""
    return f"00-{event_id.hex}-{event_id.hex[:16]}-01"


def child(event_id: UUID, cause: UUID | None) -> str:
    """The trace context of an event, by its cause: the same trace, a span of its own."""
    parent = _known.get({}).get(cause) if cause is not None else None
    if parent is None:
        return root(event_id if cause is None else cause)
    return f"{parent[:36]}{event_id.hex[:16]}{parent[52:]}"


def continued(parent: str | None, event_id: UUID) -> str:
    """The trace of an event that somebody outside has asked for: his, if he came with one."""
    if parent is None or not _WELL_FORMED.fullmatch(parent):
        return root(event_id)
    return f"{parent[:36]}{event_id.hex[:16]}{parent[52:]}"


def next_hop(parent: str, event_id: UUID, hop: str) -> str:
    """The trace context of a call that an event leads to: its trace, a span that its hop names; "" if there is none."""
    if not _WELL_FORMED.fullmatch(parent):
        return ""
    return f"{parent[:36]}{uuid5(event_id, hop).hex[:16]}{parent[52:]}"


@contextmanager
def entered(messages: Iterable[tuple[UUID, str | None]]) -> Iterator[None]:
    """While the block runs, these messages are causes: (event id, the traceparent it came with)."""
    known = {
        event_id: parent if parent and _WELL_FORMED.fullmatch(parent) else root(event_id)
        for event_id, parent in messages
    }
    token = _known.set(known)
    try:
        yield
    finally:
        _known.reset(token)
