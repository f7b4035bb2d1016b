"""Codec: where a request stands in the log, as signed in its status address.

Any gateway can say from it whose request it is and how many are before it, long before a decision is projected.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from seckill import tokens


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class Standing(NamedTuple):
    """What a status address says."""

    user_id: str
    place: Place
    deadline_ms: int


def place(text: str) -> Place:
    topic, partition, offset = text.rsplit("/", 2)
    return Place(topic, int(partition), int(offset))


def sealed(request_id: UUID, standing: Standing) -> str:
    user_id, where, deadline_ms = standing
    return tokens.sealed("place", f"{request_id}|{where}|{deadline_ms}|{user_id}")


def opened(request_id: UUID, text: str) -> Standing | None:
    """None: not ours, or of another request."""
    told = tokens.opened("place", text)
    if told is None:
        return None
    request, where, deadline, user_id = told.split("|", 3)
    return Standing(user_id, place(where), int(deadline)) if request == str(request_id) else None
