"""Admission: one Lua script in Redis decides, in one step and by one clock, which requests enter the queue.

A known key gets its own answer again, whatever has happened since, so the key is looked up before any refusal. Redis
TIME is the clock of the whole sale: the window, the admission time and the deadline rest on it, so a wrong clock on a
gateway changes nothing. While Redis is unavailable nobody is admitted.

What Redis remembers is valid for one run of the server. A restarted Redis, with old data or none, has another run_id
and starts to remember again from that moment. Reasons that the gateway found by itself (`shut`, `ticket`, `full`)
travel with the request and are judged in a fixed order, so the buyer gets the most useful one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.conf import settings
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import NoScriptError

from gateway.admission_script import ADMIT_LUA
from seckill.messaging.record_position import RecordPosition
from seckill.resilience import redis_client
from seckill.resilience.admission_keys import admission_key, prefix

TIMEOUT_S, OPEN_S = 2.0, 2.0
"""Without Redis nobody is admitted, so admission waits longer for it, and retries sooner, than the gate in
inventory."""
MEMORY_S = 24 * 3600
"""How long a request is remembered at most. It is also forgotten one hour after its sale has closed."""
TRIES_MAX, ADDRESS_TRIES_MAX = 100, 5000
"""Requests admitted per user, and per address, in one sale. They keep one client from filling Redis' memory."""
USER_RATE, USER_BURST = 5, 20  # purchase requests per second, and at once
ADDRESS_RATE, ADDRESS_BURST = 200, 1000


class Verdict(StrEnum):
    ADMITTED = "admitted"
    KNOWN = "known"
    OTHER_BODY = "other_body"
    NOT_OPEN_YET = "not_open_yet"
    CLOSED = "closed"
    PAUSED = "paused"
    TICKET_MISSING = "ticket_missing"
    TICKET_INVALID = "ticket_invalid"
    TICKET_EXPIRED = "ticket_expired"
    TICKET_SPENT = "ticket_spent"
    TOO_MANY = "too_many"
    TOO_MANY_TRIES = "too_many_tries"
    TOO_MANY_UNPAID = "too_many_unpaid"
    SOLD_OUT = "sold_out"
    BACKLOG = "backlog"
    NO_QUEUE = "no_queue"
    NO_SUCH_SALE = "no_such_sale"
    UNKNOWN = "unknown"  # it may have been admitted before, so a final answer is not possible yet


class AdmissionRequest(NamedTuple):
    """`shut`, `ticket` and `full` are the gateway's own reasons to refuse the request; each is empty if none
    applies."""

    request_id: UUID
    fingerprint: str
    user_id: str
    address: str
    opens_at_ms: int
    closes_at_ms: int
    shut: str = ""
    ticket: str = ""
    ticket_number: str = ""
    ticket_expires_at_ms: int = 0
    full: str = ""
    sale_id: int = 0
    quantity: int = 1
    unpaid_max: int = 0  # units that requests from this address may hold unpaid; 0: no limit


class MemoryLoss(StrEnum):
    """Might a refused request have been admitted before, and Redis has forgotten it?"""

    NONE = ""  # no: Redis has remembered everything since the opening
    OLD = "lost"  # yes, and by now it has been decided
    RECENT = "lost_just_now"  # yes, and it may still be in the queue


class AdmissionResult(NamedTuple):
    """`position`: where a known request stands in its topic. `is_first`: certainly not admitted before; False if Redis
    started to remember only after the opening of the sale."""

    verdict: Verdict
    now_ms: int
    admitted_at_ms: int = 0
    deadline_ms: int = 0
    position: RecordPosition | None = None
    is_first: bool = False
    memory_loss: MemoryLoss = MemoryLoss.NONE


class AdmittedRequest(NamedTuple):
    """What Redis remembers of an admitted request. `position` is None until the broker has acknowledged it."""

    user_id: str
    deadline_ms: int
    position: RecordPosition | None
    is_first: bool  # as in `AdmissionResult`


@lru_cache(maxsize=1)
def redis_connection() -> Redis:
    """For threads and for other processes."""
    return redis_client.connect(settings.ENVIRONMENT.admission_redis_url, TIMEOUT_S, OPEN_S)


@lru_cache(maxsize=1)
def loop_redis_connection() -> AsyncRedis:
    """For the gateway's event loop."""
    return redis_client.connect_async(settings.ENVIRONMENT.admission_redis_url, TIMEOUT_S, OPEN_S)


async def run_script(script: str, *arguments: str | bytes | int) -> Any:
    """On the gateway's event loop, with admission's keys. Raises `RedisError`."""
    client, key = loop_redis_connection(), prefix()
    try:
        return await client.evalsha(_sha(script), 1, key, *arguments)
    except NoScriptError:
        return await client.eval(script, 1, key, *arguments)


@lru_cache(maxsize=8)
def _sha(script: str) -> str:
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()  # as Redis names scripts


async def admit_requests(
    requests: Sequence[AdmissionRequest], placed: Sequence[tuple[UUID, RecordPosition]] = ()
) -> list[AdmissionResult]:
    """Judge all requests, in order, with one call to Redis. `placed`: positions that the broker has acknowledged.

    After a `RedisError` it is unknown who was admitted. It is safe to call again: each request gets the same answer.
    """
    answer = await run_script(
        ADMIT_LUA,
        orjson.dumps([tuple(request) for request in requests]),
        orjson.dumps([(request_id, str(position)) for request_id, position in placed]),
        settings.ENVIRONMENT.purchase_deadline_s * 1000, MEMORY_S * 1000, USER_RATE, USER_BURST,
        ADDRESS_RATE, ADDRESS_BURST, TRIES_MAX,
        (settings.ENVIRONMENT.purchase_deadline_s + settings.ENVIRONMENT.payment_ttl_s) * 1000, ADDRESS_TRIES_MAX,
    )  # fmt: skip
    head, *lines = str(answer).split("\n")
    now, life = head.split(" ")
    # Not strict: without requests there is still one empty line.
    return [_parse_result(int(now), life, line) for _, line in zip(requests, lines, strict=False)]


def restore_request(request_id: UUID, fingerprint: str, user_id: str, now_ms: int, position: str) -> None:
    """Make Redis remember a decided request that it had forgotten, replacing whatever is stored for it now."""
    value = f"{fingerprint}|{user_id}|{now_ms}|{now_ms}|0|{position}"
    redis_connection().set(request_key(request_id), value, ex=MEMORY_S)


def parse_admitted_request(value: str | None, life: str | None = None) -> AdmittedRequest | None:
    """From the value of `request_key`. `life`: Redis' present run; `is_first` is False for a request of another run."""
    if not value:
        return None
    _, user_id, _, deadline_ms, first, *position = value.split("|")
    is_first = first != "0" and life in (None, first)
    return AdmittedRequest(user_id, int(deadline_ms), RecordPosition.parse(position[0]) if position else None, is_first)


def request_key(request_id: UUID) -> str:
    return admission_key(f"admission:request:{request_id}")


def _parse_result(now_ms: int, life: str, line: str) -> AdmissionResult:
    verdict, *fields = line.split("|")
    if verdict not in ("admitted", "known"):
        return AdmissionResult(Verdict(verdict), now_ms, memory_loss=MemoryLoss(fields[0]))
    _, _, admitted_at_ms, deadline_ms, first, *position = fields
    found = RecordPosition.parse(position[0]) if position else None
    return AdmissionResult(Verdict(verdict), now_ms, int(admitted_at_ms), int(deadline_ms), found, first == life)
