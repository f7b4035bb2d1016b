"""Which attempt of a buyer is active. A page's idempotency key is the number of the attempt, so all tabs and devices of
a buyer send the same request, and the browser has to store nothing.

Only Redis is read. If it has lost an attempt, the page offers to repeat it: the same key is the same request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from redis.exceptions import RedisError

from gateway import from_threads, outcome_cache, signed_positions
from gateway.identity import derive_request_id
from gateway.outcome_cache import CachedPurchase
from gateway.purchase_status import PurchaseStatus
from gateway.signed_positions import SignedPosition
from seckill.web.purchase_states import REFUSED

ATTEMPTS_MAX = 50


class Attempts(NamedTuple):
    """`last`: the buyer's latest attempt in the sale. `next_number`: of the attempt that comes after it."""

    last: PurchaseStatus | None
    next_number: int

    @property
    def has_active(self) -> bool:
        """The buyer has to wait for the last attempt before starting another one."""
        return self.last is not None and not is_over(self.last)


def attempt_key(number: int) -> str:
    return f"page-{number}"


def find_attempts(user_id: str, sale_id: int) -> Attempts:
    """Reads all attempts from Redis at once; only the last one may need a second look-up."""
    request_ids = [
        derive_request_id(settings.SECRET_KEY, user_id, sale_id, attempt_key(number))
        for number in range(1, ATTEMPTS_MAX)
    ]
    last: PurchaseStatus | None = None
    for number, (request_id, cached) in enumerate(zip(request_ids, _fetch(request_ids), strict=True), start=1):
        if cached.outcome is None and cached.admitted is None:
            return Attempts(last, number)
        status = None if cached.outcome is None else PurchaseStatus(request_id, cached.outcome.user_id, cached.outcome)
        if status is None or not is_over(status):
            status = from_threads.fetch_status(request_id, None)
        if status is None:
            return Attempts(last, number)
        last = status
        if not is_over(status):
            return Attempts(status, number + 1)
    return Attempts(last, ATTEMPTS_MAX)


def is_over(status: PurchaseStatus) -> bool:
    """The buyer may start another attempt."""
    return status.outcome is not None and (status.outcome.may_buy_again or status.state in REFUSED)


def find_signed_position(request_id: UUID, user_id: str, given: str) -> str:
    """For the address of the event stream: the given one if it is ours, else one made from what Redis knows, else
    ""."""
    if signed_positions.verify_position(request_id, given) is not None:
        return given
    try:
        [cached] = outcome_cache.fetch_purchases([request_id])
    except RedisError:
        return ""
    admitted = cached.admitted
    if admitted is None or admitted.position is None or admitted.user_id != user_id:
        return ""
    return signed_positions.sign_position(request_id, SignedPosition(user_id, admitted.position, admitted.deadline_ms))


def _fetch(request_ids: Sequence[UUID]) -> Sequence[CachedPurchase]:
    try:
        return outcome_cache.fetch_purchases(request_ids)
    except RedisError:
        return [CachedPurchase(None, None)] * len(request_ids)
