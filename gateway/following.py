"""The verb: follow. What became of a request, from the cheapest source that is certain to know.

Redis shows what has been projected. What is not there, though Redis remembers the request, and still before inventory's
offset has not been decided: its place says so, without a question to the database. Only what lies between (being
decided just now, or forgotten by Redis) is looked up in the projection's table: how far inventory has come is seen a
moment late, and a buyer who was shown a decision before Redis lost it must not be told that he is in the queue.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple
from uuid import UUID

from redis.exceptions import RedisError

from gateway import outcomes, shown
from gateway.backlog import Estimate
from gateway.outcomes import Shown
from gateway.places import Place, Standing
from gateway.shown import Known
from gateway.watching import watch
from seckill.topics import DAY_MS

QUEUE_KEPT_MS = 8 * DAY_MS
"""Longer than topics keep a request."""


class Followed(NamedTuple):
    """`shown` is None while it is in the queue; `place` where that is known."""

    request_id: UUID
    user_id: str
    shown: Shown | None
    place: Place | None = None
    deadline_ms: int | None = None

    @property
    def estimate(self) -> Estimate | None:
        return watch().estimate(self.place) if self.shown is None and self.place is not None else None

    def body(self, estimate: Estimate | None) -> dict[str, Any]:
        if self.shown is None:
            return {
                "request_id": str(self.request_id),
                "state": "QUEUED",
                "position": None if estimate is None else estimate.ahead,
                "eta_ms": None if estimate is None else estimate.wait_ms,
                "deadline_ms": self.deadline_ms,
            }
        return {
            "request_id": str(self.request_id),
            "state": self.shown.state,
            "order_id": None if self.shown.order_id is None else str(self.shown.order_id),
            "pay_before_ms": self.shown.pay_before_ms,
            "may_buy_again": self.shown.may_buy_again,
        }


def follow(request_id: UUID, standing: Standing | None) -> Followed | None:
    """`standing` comes with a status address of ours. None: nobody knows this request. The answer says whose it is."""
    try:
        known = shown.look(request_id)
    except (RedisError, TimeoutError):
        known = Known(None, None)
    if known.shown is not None:
        return Followed(request_id, known.shown.user_id, known.shown)
    queued = _queued(request_id, standing, known)
    is_first = known.remembered is not None and known.remembered.is_first
    if queued is not None and is_first and is_queued(queued):
        return queued
    row = outcomes.find(request_id)
    if row is None:
        return queued
    try:
        shown.keep([row], tell=False)
    except RedisError:
        pass  # it was read, that is enough
    return Followed(request_id, row.user_id, row)


def is_queued(followed: Followed) -> bool:
    """Certainly not decided yet, without asking anybody."""
    return followed.shown is None and followed.place is not None and watch().is_queued(followed.place)


def _queued(request_id: UUID, standing: Standing | None, known: Known) -> Followed | None:
    is_old = standing is not None and standing.deadline_ms + QUEUE_KEPT_MS < time.time() * 1000
    if is_old and known.remembered is None:
        return None  # its outcome has been pruned, and no topic has its request any more
    if standing is not None:
        return Followed(request_id, standing.user_id, None, standing.place, standing.deadline_ms)
    if known.remembered is not None:
        user_id, deadline_ms, place, _ = known.remembered
        return Followed(request_id, user_id, None, place, deadline_ms)
    return None
