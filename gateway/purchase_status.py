"""The status of a request, from the cheapest source that is certain to know it.

1. Redis holds every projected outcome.
2. If Redis remembers the request and inventory's offset has not reached its position, it is queued; no SQL is needed.
3. Otherwise (being decided right now, or forgotten by Redis) the projection's table is read. Inventory's progress is
   seen a moment late, and a buyer who was shown a decision before Redis lost it must not be told "in the queue" again.

Everything runs on the event loop; concurrent calls share one call to Redis and one query.
"""

from __future__ import annotations

import time
from asyncio import to_thread
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import close_old_connections
from redis.exceptions import RedisError

from gateway import outcome_cache, outcomes, redis_clock
from gateway.backlog import Estimate
from gateway.backlog_monitor import shared_monitor
from gateway.batching import MicroBatcher
from gateway.outcome_cache import CachedPurchase
from gateway.outcomes import PurchaseOutcome
from gateway.signed_positions import SignedPosition
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.topics import DAY_MS
from seckill.web.problems import Problem
from seckill.web.purchase_states import PurchaseState

QUEUE_KEPT_MS = 8 * DAY_MS
"""Longer than topics keep a request."""
PROJECTION_MS_MAX = 30_000
"""The projection has repeated an interrupted transaction within this time."""


class PurchaseStatus(NamedTuple):
    """`outcome` is None while the request is queued; `position` is None if it is not known."""

    request_id: UUID
    user_id: str
    outcome: PurchaseOutcome | None
    position: RecordPosition | None = None
    deadline_ms: int | None = None

    @property
    def state(self) -> PurchaseState:
        return PurchaseState.QUEUED if self.outcome is None else self.outcome.state

    @property
    def estimate(self) -> Estimate | None:
        if self.outcome is not None or self.position is None:
            return None
        return shared_monitor().estimate(self.position)

    def body(self, estimate: Estimate | None) -> dict[str, Any]:
        if self.outcome is None:
            return {
                "request_id": str(self.request_id),
                "state": self.state.value,
                "position": None if estimate is None else estimate.ahead,
                "eta_ms": None if estimate is None else estimate.wait_ms,
                "deadline_ms": self.deadline_ms,
            }
        return {
            "request_id": str(self.request_id),
            "state": self.state.value,
            "order_id": None if self.outcome.order_id is None else str(self.outcome.order_id),
            "pay_before_ms": self.outcome.pay_before_ms,
            "may_buy_again": self.outcome.may_buy_again,
        }


async def fetch_status(request_id: UUID, signed: SignedPosition | None) -> PurchaseStatus | None:
    """None if the request is unknown. The caller has to compare `user_id`. `signed` comes with a status address.

    Raises `Problem` while nothing can tell whether the request was decided.
    """
    try:
        cached = await outcome_cache.fetch_purchase(request_id)
    except RedisError:
        cached = CachedPurchase(None, None)
    if cached.outcome is not None:
        return PurchaseStatus(request_id, cached.outcome.user_id, cached.outcome)
    queued = _queued_status(request_id, signed, cached)
    is_first = cached.admitted is not None and cached.admitted.is_first
    if queued is not None and is_first and is_certainly_queued(queued):
        return queued
    outcome = await _table().run(request_id)
    if outcome is not None:
        return PurchaseStatus(request_id, outcome.user_id, outcome)
    if queued is not None and not is_first and _may_have_been_decided(queued, cached):
        raise Problem(503, "status-unknown", "It is not known yet whether this request was decided.", retry_after_s=1)
    return queued


def _may_have_been_decided(queued: PurchaseStatus, cached: CachedPurchase) -> bool:
    """Redis has forgotten what it showed, and the projection may still have to repeat the transaction that recorded it.

    A decision that was shown is also in inventory's offsets, so they are certain once they were read afterwards.
    """
    if cached.since_ms is None:
        return True
    monitor = shared_monitor()
    if is_certainly_queued(queued) and monitor.observed_ms() > cached.since_ms:
        return False
    return redis_clock.now_ms() - cached.since_ms < PROJECTION_MS_MAX


def is_certainly_queued(status: PurchaseStatus) -> bool:
    """True if it is known, without I/O, that inventory has not decided the request yet."""
    return status.outcome is None and status.position is not None and shared_monitor().is_queued(status.position)


def _queued_status(request_id: UUID, signed: SignedPosition | None, cached: CachedPurchase) -> PurchaseStatus | None:
    is_old = signed is not None and signed.deadline_ms + QUEUE_KEPT_MS < time.time() * 1000
    if is_old and cached.admitted is None:
        return None  # its outcome has been pruned, and the topics no longer hold the request
    if signed is not None:
        return PurchaseStatus(request_id, signed.user_id, None, signed.position, signed.deadline_ms)
    if cached.admitted is not None:
        user_id, deadline_ms, position, _ = cached.admitted
        return PurchaseStatus(request_id, user_id, None, position, deadline_ms)
    return None


@lru_cache(maxsize=1)
def _table() -> MicroBatcher[UUID, PurchaseOutcome | None]:
    return MicroBatcher(_find_batch)


async def _find_batch(request_ids: Sequence[UUID]) -> list[PurchaseOutcome | None]:
    found = await to_thread(_find_and_cache, request_ids)
    return [found.get(request_id) for request_id in request_ids]


def _find_and_cache(request_ids: Sequence[UUID]) -> dict[UUID, PurchaseOutcome]:
    try:
        found = outcomes.find_outcomes(request_ids)
    finally:
        close_old_connections()
    try:
        outcome_cache.store_outcomes(list(found.values()), notify=False)
    except RedisError:
        pass  # the cache is only an optimization here
    return found
