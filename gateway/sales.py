"""The sales as this process knows them: a snapshot of inventory's views, at most a quarter of a second old. No SQL.

A Redis that has lost its memory has no sales, which is not the same as "there are none": inventory writes their list
as a whole, and until it has, what was known serves on for a while and the rest is "not known yet" (503), never 404. A
sale that has ended is in no list; asked for by its number, its view is found for a day.

With it comes the one clock (Redis TIME), carried on by this machine's monotonic one: never ahead, whatever the time of
day is here.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, cast

from redis.exceptions import RedisError

from gateway import admission
from inventory.events import NO_SALE, SALES_KEY, SALES_LIFE_KEY, SaleView, view_key
from seckill.envelope import BadEnvelope
from seckill.problems import Problem

FRESH_S = 0.25
STALE_S = 10.0
PATIENCE_S = 3.0
KEPT_S = 0.1
"""So often a snapshot is taken by who keeps it fresh."""
JUST_S = 0.005
WANTED_MAX, WANTED_S = 256, 60.0
"""How many sales outside the list are kept in the snapshot, and for how long after they were looked up."""
LISTED_MAX = 200
LOOKS_PER_SECOND_MAX = 100
"""Look-ups of single sales; so many of made-up ones do not keep Redis and this process busy."""


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
    listed: tuple[int, ...] = ()
    is_complete: bool = False  # the list was whole when the snapshot was taken
    complete_at: float = float("-inf")
    wanted: dict[int, float] = field(default_factory=dict)  # outside the list, and when each was asked for
    missing: dict[int, float] = field(default_factory=dict)  # and when each was found to be


@dataclass(slots=True)
class _Looks:
    second: int = 0
    count: int = 0


_snapshot = _Snapshot()
_looks = _Looks()
_lock = threading.Lock()
_wanting = threading.Lock()
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
        raise _unavailable()
    return _snapshot.views


def listed() -> list[SaleView]:
    """The current sales, the newest `LISTED_MAX` at most, by number."""
    found = views()
    if time.monotonic() - _snapshot.complete_at > STALE_S:
        raise _unavailable()
    return [found[sale_id] for sale_id in _snapshot.listed[-LISTED_MAX:] if sale_id in found]


def find(sale_id: int, *, missing_for_s: float = FRESH_S) -> SaleView:
    """A sale that is not in the snapshot is looked up: it may be new, or have ended. It is missing only if Redis has
    the whole list at that moment; a sale that was missing so short a time ago is not looked up again."""
    found = views().get(sale_id)
    if found is not None:
        return found
    if time.monotonic() - _snapshot.missing.get(sale_id, float("-inf")) > missing_for_s:
        if not _may_look_up():
            raise _unavailable()
        found = _look_up(sale_id)
    if found is None:
        raise Problem(404, "no-such-sale", f"There is no sale {sale_id}.")
    return found


# KEYS: view, set of sales, its life. The view, and whether the set is whole.
_FIND = """
local life = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local is_whole = redis.call('EXISTS', KEYS[2]) == 1 and (redis.call('GET', KEYS[3]) or life) == life
return {redis.call('GET', KEYS[1]) or '', is_whole and 1 or 0}
"""


def _look_up(sale_id: int) -> SaleView | None:
    """None: there is no such sale. From now on the snapshot has it, for a while."""
    try:
        answer = admission.redis().eval(_FIND, 3, view_key(sale_id), SALES_KEY, SALES_LIFE_KEY)
        text, is_whole = cast("tuple[str, int]", answer)
        found = _decode(text) if text else None
    except (RedisError, BadEnvelope) as fault:
        raise _unavailable() from fault
    if found is None and not is_whole:
        raise _unavailable()
    with _wanting:
        now = time.monotonic()
        into = _snapshot.wanted if found is not None else _snapshot.missing
        into.pop(sale_id, None)
        into[sale_id] = now
        while len(into) > WANTED_MAX:
            del into[next(iter(into))]
        if found is not None:
            _snapshot.views = _snapshot.views | {sale_id: found}
    return found


def _wanted() -> set[int]:
    now = time.monotonic()
    with _wanting:
        _snapshot.wanted = {sale_id: at for sale_id, at in _snapshot.wanted.items() if now - at < WANTED_S}
        return set(_snapshot.wanted)


def _unavailable() -> Problem:
    return Problem(503, "sales-unavailable", "Nothing is known of the sales just now.", retry_after_s=1)


def _may_look_up() -> bool:
    """Made-up sales must not cost a question to Redis each: so many a second may be looked up."""
    second = int(time.monotonic())
    if _looks.second != second:
        _looks.second, _looks.count = second, 0
    _looks.count += 1
    return _looks.count <= LOOKS_PER_SECOND_MAX


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
    wanted = _wanted()
    try:
        client = admission.redis()
        asked = client.pipeline(transaction=False)
        asked.time()
        asked.smembers(SALES_KEY)
        asked.get(SALES_LIFE_KEY)
        asked.eval(admission.BEGIN, 0)  # from now on it remembers
        (seconds, micros), members, written_in, life = asked.execute()
        answered_at = time.monotonic()
        time_ms = seconds * 1000 + micros // 1000
        listed = sorted({int(sale_id) for sale_id in members} - {NO_SALE})
        ids = sorted({*listed, *wanted})
        texts = client.mget([view_key(sale_id) for sale_id in ids]) if ids else []
    except (RedisError, ValueError):
        return  # the snapshot grows old, and `views` says so
    is_complete = bool(members) and written_in in (None, life)
    fresh, unreadable = _decoded(dict(zip(ids, cast("list[str | None]", texts), strict=True)))
    known = _snapshot.views
    found = {
        number: known[number] if number in known and known[number].stock_version > view.stock_version else view
        for number, view in fresh.items()
    }  # a Redis that was put back to an older state does not put us back
    now = time.monotonic()
    if is_complete:
        _snapshot.complete_at = now
    if now - _snapshot.complete_at <= STALE_S:
        kept = unreadable if is_complete else set(known)
        found = {number: view for number, view in known.items() if number in kept} | found
        listed = listed if is_complete else sorted({*_snapshot.listed, *listed})
    _snapshot.views, _snapshot.listed, _snapshot.is_complete = found, tuple(listed), is_complete
    _snapshot.ahead_ms = time_ms - answered_at * 1000
    _snapshot.taken_at = time.monotonic()


def _decoded(texts: dict[int, str | None]) -> tuple[dict[int, SaleView], set[int]]:
    """What can be read, and the sales whose views a newer inventory has written."""
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
"""Most views have not changed since the last look."""
