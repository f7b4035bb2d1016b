"""W3C trace context: everything that a message causes belongs to the message's trace, without an extra argument.

The consume loop makes the messages of a batch known with `entered`; the outbox finds the trace of an event by its
cause. An event without a known cause starts a trace of its own, named after the event.
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
current: ContextVar[str | None] = ContextVar("span", default=None)
"""The trace context of the span that this code runs in; set only while spans are exported (spans.py)."""


def root(event_id: UUID) -> str:
    """A new trace that starts with this event; its trace id and span id come from the event's id."""
    return f"00-{event_id.hex}-{event_id.hex[:16]}-01"


def child(event_id: UUID, cause: UUID | None) -> str:
    """The trace context of an event: the trace of its cause, with a new span."""
    parent = _known.get({}).get(cause) if cause is not None else None
    if parent is None:
        return root(event_id if cause is None else cause)
    return f"{parent[:36]}{event_id.hex[:16]}{parent[52:]}"


def context_of(cause: UUID | None) -> str | None:
    """The trace context that the cause came with; None if it is unknown or came without one."""
    found = _known.get({}).get(cause) if cause is not None else None
    return None if cause is None or found == root(cause) else found


def is_sampled(traceparent: str | None) -> bool:
    """Whether the spans of this trace are exported: the first bit of the flags."""
    return traceparent is not None and bool(_WELL_FORMED.fullmatch(traceparent) and int(traceparent[53:], 16) & 1)


def continued(parent: str | None, event_id: UUID) -> str:
    """The trace of an event that an outside request caused: the request's own trace if it sent a valid one."""
    if parent is None or not _WELL_FORMED.fullmatch(parent):
        return root(event_id)
    return f"{parent[:36]}{event_id.hex[:16]}{parent[52:]}"


def next_hop(parent: str, event_id: UUID, hop: str) -> str:
    """The trace context of a call that an event causes: the event's trace, with a span named after the hop. "" if the
    event has no trace."""
    if not _WELL_FORMED.fullmatch(parent):
        return ""
    return f"{parent[:36]}{uuid5(event_id, hop).hex[:16]}{parent[52:]}"


@contextmanager
def entered(messages: Iterable[tuple[UUID, str | None]]) -> Iterator[None]:
    """Inside the block, these messages are known causes. Each is (event id, its traceparent or None)."""
    known = {
        event_id: parent if parent and _WELL_FORMED.fullmatch(parent) else root(event_id)
        for event_id, parent in messages
    }
    token = _known.set(known)
    try:
        yield
    finally:
        _known.reset(token)
