"""Shell: the designs, each with its one way to decide a request. The product is among them under the name `full`.

Every one is written as its friends would write it: a pool of connections, prepared statements, indexes, no lock taken
for those who cannot get anything any more.
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
from loadtest.peers import books

THINKING_S = 0.002

# KEYS: units left, buyers, answers. ARGV: user, request, units, now many there are if nobody has counted.
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
    """Read, think, write."""
    stock = books.stock_of(db, request, locked=False)
    if stock is None or books.decided_before(db, request.request_id):
        return
    decision = books.rule(request, stock, books.is_holder(db, request))
    think()
    with db.transaction():
        version = stock.version
        if decision is Decision.RESERVED:
            version += 1
            books.overwrite(db, stock, request.quantity)
        books.write(db, request, stock, decision, version, books.own_place(request))


def think() -> None:
    """Between reading and writing: a look at a cache, a line of a log, a risk check."""
    time.sleep(THINKING_S)


def row_lock(db: Connection[Any], redis_url: str, request: PurchaseRequested) -> None:
    """SELECT … FOR UPDATE; whoever finds too little before that takes no lock."""
    try:
        with db.transaction():
            stock = books.stock_of(db, request, locked=False)
            if stock is None or books.decided_before(db, request.request_id):
                return
            if stock.available >= request.quantity:
                stock = books.stock_of(db, request, locked=True)
                assert stock is not None
            decision = books.rule(request, stock, books.is_holder(db, request))
            version = stock.version
            if decision is Decision.RESERVED:
                version += 1
                books.overwrite(db, stock, request.quantity)
            books.write(db, request, stock, decision, version, books.own_place(request))
    except UniqueViolation:
        pass  # the same request at the same moment: the other one has decided it


def redis_gate(db: Connection[Any], redis_url: str, request: PurchaseRequested) -> None:
    """Redis decides, in one script; the database is told."""
    stock = books.stock_of(db, request, locked=False)
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
            version = books.take(db, stock, request.quantity)
        books.write(db, request, stock, decision, version, books.own_place(request))


@lru_cache(maxsize=1)
def _gate(redis_url: str) -> Any:
    client: Redis = Redis.from_url(redis_url, socket_timeout=5, decode_responses=True)
    return client.register_script(_GATE)


class Design(NamedTuple):
    """`decide` None: the product itself. `later`: in a Celery task, and not in the request."""

    name: str
    says: str
    guards: bool
    decide: Callable[[Connection[Any], str, PurchaseRequested], None] | None
    later: bool = False


DESIGNS = {
    design.name: design
    for design in (
        Design("naive", "read, then write, in the request", False, naive),
        Design("row-lock", "SELECT … FOR UPDATE in the request", True, row_lock),
        Design("celery", "one Celery task per purchase, row lock in it", True, row_lock, later=True),
        Design("redis-gate", "Redis decides alone, the database is told", False, redis_gate),
        Design("full", "the product: a log, a gate that proposes, batches under the row's lock", True, None),
    )
}
