"""The sales as this process knows them: a snapshot of inventory's views, at most a quarter of a second old. No SQL.

With it comes the one clock (Redis TIME), carried on by this machine's monotonic one: never ahead, whatever the time of
day is here.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

from redis.exceptions import RedisError

from gateway.admission import SINCE_KEY
from gateway.admission import redis as admission_redis
from inventory.events import SALES_KEY, SaleView, view_key
from seckill.envelope import BadEnvelope
from seckill.problems import Problem

FRESH_S = 0.25
STALE_S = 10.0
PATIENCE_S = 3.0
KEPT_S = 0.1
"""So often a snapshot is taken by who keeps it fresh."""
JUST_S = 0.005


class Availability(StrEnum):
    AVAILABLE = "available"
    ALL_HELD = "all_held"  # nothing is left, but some of it may come back
    SOLD_OUT = "sold_out"  # the last unit has been sold: the mark


@dataclass(slots=True)
class _Snapshot:
    views: dict[int, SaleView] = field(default_factory=dict)
    taken_at: float = float("-inf")
    tried_at: float = float("-inf")
    ahead_ms: float = 0.0  # of the one clock before our monotonic one


_snapshot = _Snapshot()
_lock = threading.Lock()
_is_wanted = threading.Event()


def keep() -> None:
    """On a thread, for ever: fresh while anybody wants it to be, so that nobody else has to look."""
    while True:
        _is_wanted.wait()
        _is_wanted.clear()
        try:
            views(older_than_s=KEPT_S)
        except Problem:
            pass  # whoever wants to know is told
        time.sleep(KEPT_S)


def are_kept() -> bool:
    """Is what is known so new that asking for it waits for nobody? Then it shall stay so. After a quiet hour nobody
    else begins to look: whoever asks does, and has it as it is now."""
    age_s = time.monotonic() - _snapshot.taken_at
    if age_s < FRESH_S and not _is_wanted.is_set():
        _is_wanted.set()
    return age_s < FRESH_S - KEPT_S / 2


def views(*, wait: bool = False, older_than_s: float = FRESH_S) -> dict[int, SaleView]:
    """One thread refreshes, the others go on with what there is, unless they had better `wait` for him. Too old a
    snapshot is no answer: then all wait, once, and if he has had none either it is an error, not a guess."""
    age_s = time.monotonic() - _snapshot.taken_at
    if age_s > older_than_s and _lock.acquire(timeout=PATIENCE_S if wait or age_s > STALE_S else 0):
        try:
            if time.monotonic() - _snapshot.tried_at > older_than_s:
                _refresh()
                _snapshot.tried_at = time.monotonic()
        finally:
            _lock.release()
    if time.monotonic() - _snapshot.taken_at > STALE_S:
        raise Problem(503, "sales-unavailable", "Nothing is known of the sales just now.", retry_after_s=1)
    return _snapshot.views


def find(sale_id: int, *, missing_for_s: float = FRESH_S) -> SaleView:
    """A sale that is not in an old snapshot may have been made since: "not found" is said by one that is not older."""
    found = views().get(sale_id) or views(wait=True, older_than_s=missing_for_s).get(sale_id)
    if found is None:
        raise Problem(404, "no-such-sale", f"There is no sale {sale_id}.")
    return found


def now_ms() -> int:
    """The one clock, as far as it is known here; after `views`."""
    return int(_snapshot.ahead_ms + time.monotonic() * 1000)


def availability(view: SaleView) -> Availability:
    """By the stock version the view rests on: more units (an adjustment, a return) lift the mark with the next view."""
    if view.available > 0:
        return Availability.AVAILABLE
    return Availability.ALL_HELD if view.reserved > 0 else Availability.SOLD_OUT


def tag(view: SaleView) -> str:
    """Changes whenever what is shown of the sale does."""
    return f"{view.id}.{view.stock_version}.{view.state}"


def shown(view: SaleView) -> dict[str, Any]:
    return {name: getattr(view, name) for name in SaleView.__slots__} | {"availability": availability(view).value}


def _refresh() -> None:
    try:
        client = admission_redis()
        asked = client.pipeline(transaction=False)
        asked.time()
        asked.smembers(SALES_KEY)
        (seconds, micros), members = asked.execute()
        answered_at = time.monotonic()
        time_ms = seconds * 1000 + micros // 1000
        ids = sorted(int(sale_id) for sale_id in members)
        client.set(SINCE_KEY, time_ms, nx=True)  # from now on it remembers
        texts = client.mget([view_key(sale_id) for sale_id in ids]) if ids else []
    except (RedisError, ValueError):
        return  # the snapshot grows old, and `views` says so
    fresh = {view.id: view for view in filter(None, map(_decoded, cast("list[str | None]", texts)))}
    known = _snapshot.views
    _snapshot.views = {
        number: known[number] if number in known and known[number].stock_version > view.stock_version else view
        for number, view in fresh.items()
    }  # a Redis that was put back to an older state does not put us back
    _snapshot.ahead_ms = time_ms - answered_at * 1000
    _snapshot.taken_at = time.monotonic()


def _decoded(text: str | None) -> SaleView | None:
    try:
        return None if text is None else SaleView.decode(text)
    except BadEnvelope:
        return None  # of another version of inventory; the others are good
