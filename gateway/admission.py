"""Admission: one script in Redis decides, in one step and by one clock, which of many requests enter the queue.

The key is looked up before anything is refused: a known one gets its own answer again, whatever has happened since.
Redis TIME is the clock of the whole sale: window, admission time and deadline rest on it, so a gateway whose own clock
is wrong changes nothing. Without Redis nobody is admitted. What a gateway has found out by itself (`shut`, `ticket`,
`full`) comes along with the request and takes its turn among the reasons, so that the cheapest and plainest is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.conf import settings
from redis import Redis
from redis.exceptions import NoScriptError

from gateway.places import Place, place

SINCE_KEY = "admission:since"
"""When Redis began to remember; what it had forgotten before that it does not know to have known."""
REMEMBER_S = 24 * 3600
USER_RATE, USER_BURST = 5, 20  # purchases a second, and at once
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
    SOLD_OUT = "sold_out"
    BACKLOG = "backlog"
    NO_QUEUE = "no_queue"


class Ask(NamedTuple):
    """One request at the door. `shut`, `ticket` and `full` are reasons of the gateway's own to refuse it, or empty."""

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


class Admitted(NamedTuple):
    """`place` is where a known request stands already. `is_first` is False if Redis began to remember only after the
    sale had opened: then this request may have been here before, unremembered."""

    verdict: Verdict
    now_ms: int
    admitted_at_ms: int = 0
    deadline_ms: int = 0
    place: Place | None = None
    is_first: bool = False


class Remembered(NamedTuple):
    """A request that was admitted, and where it stands if that is known."""

    user_id: str
    deadline_ms: int
    place: Place | None
    is_first: bool  # as in `Admitted`


# ARGV: requests and places (JSON), deadline after, remember s, user rate, burst, address rate, burst. All requests are
# one text: a client library pays for each argument, Redis hardly.
# What is remembered: body|user|admitted at|deadline|first (1 or 0), and |topic/partition/offset once it has a place.
_ADMIT = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local deadline_after, remember_s = tonumber(ARGV[3]), ARGV[4]
local since = redis.call('GET', 'admission:since')
if not since then
  since = now
  redis.call('SET', 'admission:since', now)
end
for _, placed in ipairs(cjson.decode(ARGV[2])) do
  local key = 'admission:request:' .. placed[1]
  local known = redis.call('GET', key)
  if known and not string.find(known, '/', 1, true) then
    redis.call('SET', key, known .. '|' .. placed[2], 'KEEPTTL')
  end
end
local function take(key, rate, burst)
  local bucket = redis.call('GET', key)
  local tokens = burst
  if bucket then
    local left, at = string.match(bucket, '^(.*):(.*)$')
    tokens = math.min(burst, left + (now - at) * rate / 1000)
  end
  local enough = tokens >= 1
  if enough then tokens = tokens - 1 end
  redis.call('SET', key, string.format('%.3f:%.0f', tokens, now), 'PX', math.ceil(burst / rate * 1000) + 1000)
  return enough
end
local user_rate, user_burst = tonumber(ARGV[5]), tonumber(ARGV[6])
local address_rate, address_burst = tonumber(ARGV[7]), tonumber(ARGV[8])
local function judge(id, body, user, address, opens, closes, shut, ticket, number, expires, full)
  local key = 'admission:request:' .. id
  local known = redis.call('GET', key)
  if known then
    if string.sub(known, 1, #body) ~= body then return 'other_body' end
    return 'known', known
  end
  if now < opens then return 'not_open_yet' end
  if now >= closes then return 'closed' end
  if shut ~= '' then return shut end
  if ticket ~= '' then return ticket end
  if now >= expires then return 'ticket_expired' end
  local spent = redis.call('GET', 'admission:ticket:' .. number)
  if spent and spent ~= id then return 'ticket_spent' end
  if not take('admission:user:' .. user, user_rate, user_burst) then return 'too_many' end
  if not take('admission:address:' .. address, address_rate, address_burst) then return 'too_many' end
  if full ~= '' then return full end
  local first = 0
  if tonumber(since) < opens then first = 1 end
  local value = string.format('%s|%s|%.0f|%.0f|%d', body, user, now, now + deadline_after, first)
  redis.call('SET', key, value, 'EX', remember_s)
  redis.call('SET', 'admission:ticket:' .. number, id, 'PX', expires - now)
  return 'admitted', value
end
local answers = {}
for at, ask in ipairs(cjson.decode(ARGV[1])) do
  local verdict, value = judge(unpack(ask))
  answers[at] = verdict .. '|' .. (value or '')
end
return string.format('%.0f', now) .. '\\n' .. table.concat(answers, '\\n')
"""


@lru_cache(maxsize=1)
def redis() -> Redis:
    client: Redis = Redis.from_url(
        settings.ENVIRONMENT.admission_redis_url, socket_timeout=2, socket_connect_timeout=2, decode_responses=True
    )
    return client


@lru_cache(maxsize=1)
def _script() -> Any:
    return redis().register_script(_ADMIT)


def admit(asks: Sequence[Ask], placed: Sequence[tuple[UUID, Place]] = ()) -> list[Admitted]:
    """One round trip for all; each judged in its turn. `placed`: requests that have got their place, to be remembered.
    `RedisError`: nobody knows who was admitted; asked again, each gets the same answer."""
    requests = orjson.dumps([tuple(ask) for ask in asks])
    places = orjson.dumps([(request_id, str(where)) for request_id, where in placed])
    arguments: list[bytes | int] = [
        requests, places, settings.ENVIRONMENT.purchase_deadline_s * 1000, REMEMBER_S, USER_RATE, USER_BURST,
        ADDRESS_RATE, ADDRESS_BURST,
    ]  # fmt: skip
    client, script = redis(), _script()
    try:
        told = client.evalsha(script.sha, 0, *arguments)
    except NoScriptError:
        told = client.eval(_ADMIT, 0, *arguments)
    now, *answers = str(told).split("\n")
    return [_admitted(int(now), answer) for _, answer in zip(asks, answers, strict=False)]  # no asks: one empty line


def remembered(value: str | None) -> Remembered | None:
    """From what `request_key` holds."""
    if value is None:
        return None
    _, user_id, _, deadline, first, *where = value.split("|")
    return Remembered(user_id, int(deadline), place(where[0]) if where else None, first == "1")


def request_key(request_id: UUID) -> str:
    return f"admission:request:{request_id}"


def _admitted(now_ms: int, answer: str) -> Admitted:
    verdict, *known = answer.split("|")
    if verdict not in ("admitted", "known"):
        return Admitted(Verdict(verdict), now_ms)
    _, _, admitted_at, deadline, first, *where = known
    found = place(where[0]) if where else None
    return Admitted(Verdict(verdict), now_ms, int(admitted_at), int(deadline), found, first == "1")
