"""Machine: the reasons to stop reading from a connection."""

from __future__ import annotations

from enum import Enum, auto


class Reason(Enum):
    STARVED = auto()  # no memory is available for its next request
    YIELDING = auto()  # it has used up its share of this loop turn
    WAITING = auto()  # too many of its requests wait for their answers
    STALLED = auto()  # the client does not read its answers
    ENDING = auto()  # the connection is about to close
