"""Lab 11 · a backlog of minutes: three small tasks about deadlines."""

from __future__ import annotations


def decide(now_ms: int, deadline_ms: int, available: int) -> str:
    """Task 1: TOO_LATE, SOLD_OUT or RESERVED for a request of one unit. A deadline is the last moment that counts. A
    buyer who has left must not learn that it was sold out: it was not the reason."""
    raise NotImplementedError("task 11.1")


def wait_ms(ahead: int, decided: int, in_ms: int) -> int | None:
    """Task 2: how long a new request waits behind `ahead` others, if `decided` requests were decided in the last
    `in_ms`. None if nothing is known of the pace. An empty queue has no wait."""
    raise NotImplementedError("task 11.2")


def admit(wait_ms: int | None, patience_ms: int) -> tuple[int, int]:
    """Task 3: the HTTP status for a request, and Retry-After in whole seconds (0 for none). 202 if it can be decided
    within the buyer's patience, or if the wait is unknown; else 503, and the buyer should come back when it could
    be."""
    raise NotImplementedError("task 11.3")
