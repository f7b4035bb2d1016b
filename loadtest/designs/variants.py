"""Shell: the designs, each with its own function that decides a request. The product itself is the design `full`.

Each one is written as its advocates would write it: a connection pool, prepared statements, indexes, and no lock once
the sale is sold out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from psycopg import Connection
from psycopg.errors import UniqueViolation
from redis import Redis

from gateway.events import PurchaseRequested
from inventory.events import Decision
from loadtest.designs import purchase_rows

PAUSE_S = 0.002
"""Between reading and writing, the time of a call to a cache, a log or a risk check."""

# KEYS: units left, buyers, answers. ARGV: user, request, units wanted, units available if Redis has no counter yet.
_GATE = """
local before = redis.call('HGET', KEYS[3], ARGV[2])
if before then return {before, 1} end
local left = tonumber(redis.call('GET', KEYS[1]) or ARGV[4])
local answer = 'RESERVED'
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then answer = 'DUPLICATE'
elseif left < tonumber(ARGV[3]) then answer = 'SOLD_OUT'
else
  left = left - tonumber(ARGV[3])
  redis.call('SADD', KEYS[2], ARGV[1])
end
redis.call('SET', KEYS[1], left)
redis.call('HSET', KEYS[3], ARGV[2], answer)
return {answer, 0}
"""


def naive(db: Connection[Any], redis_url: str, request: PurchaseRequested) -> None:
    """Read, then write, without a lock in between."""
    stock = purchase_rows.stock_of(db, request, locked=False)
    if stock is None or purchase_rows.decided_before(db, request.request_id):
        return
    decision = purchase_rows.decision_for(request, stock, purchase_rows.is_holder(db, request))
    pause()
    with db.transaction():
        version = stock.version
        if decision is Decision.RESERVED:
            version += 1
            purchase_rows.overwrite_stock(db, stock, request.quantity)
        purchase_rows.write_decision(db, request, stock, decision, version, purchase_rows.made_up_place(request))


def pause() -> None:
    time.sleep(PAUSE_S)


def row_lock(db: Connection[Any], redis_url: str, request: PurchaseRequested) -> None:
    """SELECT … FOR UPDATE, unless a read without a lock already shows too few units."""
    try:
        with db.transaction():
            stock = purchase_rows.stock_of(db, request, locked=False)
            if stock is None or purchase_rows.decided_before(db, request.request_id):
                return
            if stock.available >= request.quantity:
                stock = purchase_rows.stock_of(db, request, locked=True)
                assert stock is not None
            decision = purchase_rows.decision_for(request, stock, purchase_rows.is_holder(db, request))
            version = stock.version
            if decision is Decision.RESERVED:
                version += 1
                purchase_rows.overwrite_stock(db, stock, request.quantity)
            purchase_rows.write_decision(db, request, stock, decision, version, purchase_rows.made_up_place(request))
    except UniqueViolation:
        pass  # a concurrent copy of the same request has decided it


def redis_gate(db: Connection[Any], redis_url: str, request: PurchaseRequested) -> None:
    """One script in Redis decides; the database records the decision afterwards."""
    stock = purchase_rows.stock_of(db, request, locked=False)
    if stock is None:
        return
    base = f"peer:{{{request.sale_id}}}"
    answer, is_known = _gate(redis_url)(
        [f"{base}:left", f"{base}:buyers", f"{base}:answers"],
        [request.user_id, str(request.request_id), request.quantity, stock.available],
    )
    if is_known:
        return
    decision = Decision(answer)
    with db.transaction():
        version = stock.version
        if decision is Decision.RESERVED:
            version = purchase_rows.subtract_units(db, stock, request.quantity)
        purchase_rows.write_decision(db, request, stock, decision, version, purchase_rows.made_up_place(request))


@lru_cache(maxsize=1)
def _gate(redis_url: str) -> Any:
    client: Redis = Redis.from_url(redis_url, socket_timeout=5, decode_responses=True)
    return client.register_script(_GATE)


class Design(NamedTuple):
    """`decide` is None for the product itself. `in_task`: a Celery task decides, not the HTTP request."""

    name: str
    summary: str
    keeps_constraints: bool
    decide: Callable[[Connection[Any], str, PurchaseRequested], None] | None
    in_task: bool = False


DESIGNS = {
    design.name: design
    for design in (
        Design("naive", "the HTTP request reads the stock, then writes it", False, naive),
        Design("row-lock", "the HTTP request locks the stock row with SELECT … FOR UPDATE", True, row_lock),
        Design("celery", "one Celery task per purchase locks the stock row", True, row_lock, in_task=True),
        Design("redis-gate", "Redis alone decides, and the database only records it", False, redis_gate),
        Design("full", "this project: a log, a gate that proposes, batches under the stock row's lock", True, None),
    )
}
