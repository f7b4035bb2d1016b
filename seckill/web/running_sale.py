"""Decision: which of several sales a page or the crowd means when no sale is named. The console, the front page and
Locust use the same rule."""

from __future__ import annotations


def importance(sale_id: int, state: str, opens_at_ms: int, closes_at_ms: int, now_ms: int) -> tuple[int, int]:
    """A sort key, the most important sale first: running ones (the newest first), then those that will open (the next
    one first), then paused ones, then those that are over (the newest first)."""
    if state == "closed" or now_ms >= closes_at_ms:
        return 3, -sale_id
    if state == "paused":
        return 2, -sale_id
    if now_ms < opens_at_ms:
        return 1, opens_at_ms
    return 0, -sale_id
