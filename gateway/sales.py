"""The sales as this process knows them: a snapshot of inventory's views, at most a quarter of a second old. No SQL."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from redis.exceptions import RedisError

from gateway.admission import redis as admission_redis
from inventory.events import SALES_KEY, SaleView, view_key
from seckill.envelope import BadEnvelope
from seckill.problems import Problem

FRESH_S = 0.25
STALE_S = 10.0


@dataclass(slots=True)
class _Snapshot:
    views: dict[int, SaleView] = field(default_factory=dict)
    taken_at: float = float("-inf")


_snapshot = _Snapshot()
_lock = threading.Lock()


def views() -> dict[int, SaleView]:
    """One thread refreshes, the others go on with what there is; too old a snapshot is an error, not a guess."""
    now = time.monotonic()
    if now - _snapshot.taken_at > FRESH_S and _lock.acquire(blocking=not _snapshot.views):
        try:
            if now - _snapshot.taken_at > FRESH_S:
                _refresh()
        finally:
            _lock.release()
    if time.monotonic() - _snapshot.taken_at > STALE_S:
        raise Problem(503, "sales-unavailable", "Nothing is known of the sales just now.", retry_after_s=1)
    return _snapshot.views


def find(sale_id: int) -> SaleView:
    found = views().get(sale_id)
    if found is None:
        raise Problem(404, "no-such-sale", f"There is no sale {sale_id}.")
    return found


def _refresh() -> None:
    try:
        client = admission_redis()
        ids = sorted(int(sale_id) for sale_id in client.smembers(SALES_KEY))
        texts = client.mget([view_key(sale_id) for sale_id in ids]) if ids else []
        _snapshot.views = {view.id: view for view in (SaleView.decode(text) for text in texts if text)}
        _snapshot.taken_at = time.monotonic()
    except (RedisError, BadEnvelope, ValueError):
        pass  # the snapshot grows old, and `views` says so
