"""The sales as this process knows them: a snapshot of inventory's views in Redis, at most a quarter of a second old.

A Redis that lost its memory contains no sales, which does not mean that no sale exists. Inventory writes the list of
sales as a whole; until it has done so again, the gateway serves the previous snapshot for a while and answers "not
known yet" (503) for the rest, never 404. A sale that has ended is no longer listed, but its view can be looked up by id
for a day.
"""

from __future__ import annotations

import threading
import time
from asyncio import to_thread
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import cast

from redis.exceptions import RedisError

from gateway import admission, redis_clock
from gateway.admission_script import BEGIN_MEMORY_LUA
from inventory.events import NO_SALE, SALES_KEY, SALES_RUN_KEY, SaleView, view_key
from seckill.messaging.envelope import BadEnvelope
from seckill.resilience.admission_keys import admission_key, prefix
from seckill.web.problems import Problem

FRESH_S = 0.25
STALE_S = 10.0
REFRESH_WAIT_S = 3.0
REFRESH_INTERVAL_S = 0.1
"""The refreshing thread takes a snapshot this often while the sales are being read."""
RECENTLY_MISSING_S = 0.005
WANTED_MAX, WANTED_S = 256, 60.0
"""How many unlisted sales the snapshot keeps, and for how long after a look-up."""
LISTED_MAX = 200
LOOKUPS_PER_SECOND_MAX = 100
"""Look-ups of unlisted sales. The limit keeps requests for invented ids from costing one Redis call each."""


@dataclass(slots=True)
class _Snapshot:
    """Times are monotonic seconds."""

    views: dict[int, SaleView] = field(default_factory=dict)
    taken_at: float = float("-inf")
    tried_at: float = float("-inf")
    listed: tuple[int, ...] = ()
    complete_at: float = float("-inf")  # when the list was last known to be whole
    wanted: dict[int, float] = field(default_factory=dict)  # unlisted sales that were looked up, and when
    missing: dict[int, float] = field(default_factory=dict)  # ids that were looked up in vain, and when
    is_refreshing: bool = False  # a coroutine waits for a refresh


@dataclass(slots=True)
class _LookupLimit:
    second: int = 0
    count: int = 0


_snapshot = _Snapshot()
_lookup_limit = _LookupLimit()
_refreshing = threading.Lock()
_wanted_lock = threading.Lock()
_is_wanted = threading.Event()


def keep_fresh() -> None:
    """Body of a daemon thread: refresh the snapshot as long as `is_fresh` is called, so that no request has to."""
    while True:
        _is_wanted.wait()
        _is_wanted.clear()
        try:
            current_views(older_than_s=REFRESH_INTERVAL_S)
        except Problem:
            pass  # the next reader gets the same problem as its answer
        time.sleep(REFRESH_INTERVAL_S)


def is_fresh() -> bool:
    """Can the snapshot be read without waiting? If so, also ask the refreshing thread to keep it fresh.

    After a quiet hour the answer is False: the first reader then refreshes the snapshot and sees the present state.
    """
    age_s = time.monotonic() - _snapshot.taken_at
    if age_s < FRESH_S and not _is_wanted.is_set():
        _is_wanted.set()
    return age_s < FRESH_S - REFRESH_INTERVAL_S / 2


def current_views(*, wait: bool = False, older_than_s: float = FRESH_S) -> dict[int, SaleView]:
    """All known sales by id. One thread refreshes while the others use the previous snapshot, unless they `wait`.

    If the snapshot is too old to use, every caller waits for the refresh; if that fails, this raises instead of serving
    stale data.
    """
    age_s = time.monotonic() - _snapshot.taken_at
    if age_s > older_than_s and _refreshing.acquire(timeout=REFRESH_WAIT_S if wait or age_s > STALE_S else 0):
        try:
            if time.monotonic() - _snapshot.tried_at > older_than_s:
                _refresh()
                _snapshot.tried_at = time.monotonic()
        finally:
            _refreshing.release()
    if time.monotonic() - _snapshot.taken_at > STALE_S:
        raise _unavailable()
    return _snapshot.views


def list_sales() -> list[SaleView]:
    """The current sales in the order of their ids; at most the newest `LISTED_MAX`."""
    views = current_views()
    if time.monotonic() - _snapshot.complete_at > STALE_S:
        raise _unavailable()
    return [views[sale_id] for sale_id in _snapshot.listed[-LISTED_MAX:] if sale_id in views]


def find_sale(sale_id: int, *, missing_for_s: float = FRESH_S) -> SaleView:
    """One sale. A sale outside the snapshot is looked up, because it may be new or have ended.

    It counts as missing only if Redis holds the whole list at that moment. An id that was missing less than
    `missing_for_s` ago is not looked up again.
    """
    found = current_views().get(sale_id)
    if found is not None:
        return found
    if time.monotonic() - _snapshot.missing.get(sale_id, float("-inf")) > missing_for_s:
        if not _take_lookup():
            raise _unavailable()
        found = _look_up(sale_id)
    if found is None:
        raise Problem(404, "no-such-sale", f"Sale {sale_id} does not exist.")
    return found


async def list_sales_on_loop() -> list[SaleView]:
    """From memory if the snapshot is fresh; otherwise a thread waits for Redis, because the loop must not."""
    return list_sales() if is_fresh() else await to_thread(list_sales)


async def find_sale_on_loop(sale_id: int, *, missing_for_s: float = FRESH_S) -> SaleView:
    if not is_fresh():
        await _refresh_once()
    found = _snapshot.views.get(sale_id)
    return found if found is not None else await to_thread(partial(find_sale, sale_id, missing_for_s=missing_for_s))


async def _refresh_once() -> None:
    """One coroutine waits for a thread; the others use the previous snapshot, as in `current_views`. Without this a
    thread that was late by a few milliseconds cost every purchase a thread of its own."""
    if _snapshot.is_refreshing and time.monotonic() - _snapshot.taken_at <= STALE_S:
        return
    _snapshot.is_refreshing = True
    try:
        await to_thread(current_views)
    finally:
        _snapshot.is_refreshing = False


# KEYS: view, set of sales, the set's Redis run. Returns the view, and whether the set is whole.
_FIND = """
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local is_whole = redis.call('EXISTS', KEYS[2]) == 1 and (redis.call('GET', KEYS[3]) or run) == run
return {redis.call('GET', KEYS[1]) or '', is_whole and 1 or 0}
"""


def _look_up(sale_id: int) -> SaleView | None:
    """None if the sale does not exist. A sale that is found stays in the snapshot for a while."""
    try:
        keys = map(admission_key, (view_key(sale_id), SALES_KEY, SALES_RUN_KEY))
        answer = admission.redis_connection().eval(_FIND, 3, *keys)
        text, is_whole = cast("tuple[str, int]", answer)
        found = _decode(text) if text else None
    except (RedisError, BadEnvelope) as fault:
        raise _unavailable() from fault
    if found is None and not is_whole:
        raise _unavailable()
    with _wanted_lock:
        into = _snapshot.wanted if found is not None else _snapshot.missing
        into.pop(sale_id, None)
        into[sale_id] = time.monotonic()
        while len(into) > WANTED_MAX:
            del into[next(iter(into))]
        if found is not None:
            _snapshot.views = _snapshot.views | {sale_id: found}
    return found


def _recently_wanted() -> set[int]:
    now = time.monotonic()
    with _wanted_lock:
        _snapshot.wanted = {sale_id: at for sale_id, at in _snapshot.wanted.items() if now - at < WANTED_S}
        return set(_snapshot.wanted)


def _unavailable() -> Problem:
    return Problem(503, "sales-unavailable", "The sales are temporarily unavailable.", retry_after_s=1)


def _take_lookup() -> bool:
    """Count one look-up; False if this second's limit is used up."""
    second = int(time.monotonic())
    if _lookup_limit.second != second:
        _lookup_limit.second, _lookup_limit.count = second, 0
    _lookup_limit.count += 1
    return _lookup_limit.count <= LOOKUPS_PER_SECOND_MAX


def _refresh() -> None:
    wanted = _recently_wanted()
    try:
        client = admission.redis_connection()
        # Redis remembers requests from now on.
        found = client.eval(BEGIN_MEMORY_LUA, 3, prefix(), admission_key(SALES_KEY), admission_key(SALES_RUN_KEY))
        received_at = time.monotonic()
        redis_time, members, written_in, run = cast("tuple[list[str], list[str], str, str]", found)
        listed = sorted({int(sale_id) for sale_id in members} - {NO_SALE})
        ids = sorted({*listed, *wanted})
        texts = client.mget([admission_key(view_key(sale_id)) for sale_id in ids]) if ids else []
    except (RedisError, ValueError):
        return  # the snapshot ages, and `current_views` raises once it is too old
    is_complete = bool(members) and written_in in ("", run)
    fresh, unreadable = _decode_all(dict(zip(ids, cast("list[str | None]", texts), strict=True)))
    known = _snapshot.views
    # A Redis that was restored from an older backup must not take us back.
    views = {
        sale_id: known[sale_id] if sale_id in known and known[sale_id].version > view.version else view
        for sale_id, view in fresh.items()
    }
    now = time.monotonic()
    if is_complete:
        _snapshot.complete_at = now
    if now - _snapshot.complete_at <= STALE_S:
        kept = unreadable if is_complete else set(known)
        views = {sale_id: view for sale_id, view in known.items() if sale_id in kept} | views
        listed = listed if is_complete else sorted({*_snapshot.listed, *listed})
    _snapshot.views, _snapshot.listed = views, tuple(listed)
    redis_clock.synchronize((int(redis_time[0]), int(redis_time[1])), received_at)
    _snapshot.taken_at = time.monotonic()


def _decode_all(texts: dict[int, str | None]) -> tuple[dict[int, SaleView], set[int]]:
    """The views, and the sales whose views are unreadable because a newer inventory wrote them."""
    views, unreadable = {}, set()
    for sale_id, text in texts.items():
        if text is None:
            continue
        try:
            views[sale_id] = _decode(text)
        except BadEnvelope:
            unreadable.add(sale_id)
    return views, unreadable


_decode = lru_cache(maxsize=4096)(SaleView.decode)
"""Cached because most views have not changed since the previous snapshot."""
