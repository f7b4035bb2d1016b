"""Admission: one script in Redis decides, in one step and by one clock, which of many requests enter the queue.

The key is looked up before anything is refused: a known one gets its own answer again, whatever has happened since.
Redis TIME is the clock of the whole sale: window, admission time and deadline rest on it, so a gateway whose own clock
is wrong changes nothing. Without Redis nobody is admitted. What Redis remembers belongs to one life of it: a Redis that
was started again, with old data or none, is known by its run_id, and begins to remember again. What a gateway has found
out by itself (`shut`, `ticket`, `full`) comes along with the request and takes its turn among the reasons, so that the
cheapest and plainest is given.
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
from seckill import bounded_redis

SINCE_KEY = "admission:since"
"""When Redis began to remember; what it had forgotten before that it does not know to have known."""
TIMEOUT_S, OPEN_S = 2.0, 2.0
"""Without Redis nobody is admitted, so it gets more time than where the row decides without it, and is asked sooner."""
REMEMBER_S = 24 * 3600
"""At most; a request is also forgotten an hour after its sale has closed."""
TRIES_MAX, ADDRESS_TRIES_MAX = 100, 5000
"""Requests of one user, and of one address, that a sale admits: so neither can fill the memory of admission."""
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
    TOO_MANY_TRIES = "too_many_tries"
    TOO_MANY_UNPAID = "too_many_unpaid"
    SOLD_OUT = "sold_out"
    BACKLOG = "backlog"
    NO_QUEUE = "no_queue"
    NO_SUCH_SALE = "no_such_sale"
    UNKNOWN = "unknown"  # it may have been admitted before; nothing final can be said yet


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
    sale_id: int = 0
    quantity: int = 1
    unpaid_max: int = 0  # units that requests of this address may hold without paying; 0: no limit


class Memory(StrEnum):
    """Of a refused request: might it have been admitted before, and Redis has forgotten it?"""

    WHOLE = ""  # no: Redis remembers from before the opening
    LOST = "lost"  # yes, and by now it has been decided
    LOST_JUST_NOW = "lost_just_now"  # yes, and it may still be in the queue


class Admitted(NamedTuple):
    """`place` is where a known request stands already. `is_first` is False if Redis began to remember only after the
    sale had opened: then this request may have been here before, unremembered."""

    verdict: Verdict
    now_ms: int
    admitted_at_ms: int = 0
    deadline_ms: int = 0
    place: Place | None = None
    is_first: bool = False
    memory: Memory = Memory.WHOLE


class Remembered(NamedTuple):
    """A request that was admitted, and where it stands if that is known."""

    user_id: str
    deadline_ms: int
    place: Place | None
    is_first: bool  # as in `Admitted`


LIFE_KEY = "admission:life"

# Gives `now`, `life` (its run_id) and `since`. A `since` of another life says nothing: between its end and
# this one's beginning anything may have been forgotten.
LIFE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local life = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local since = redis.call('GET', 'admission:since')
local known_life = redis.call('GET', 'admission:life')
if not since or (known_life and known_life ~= life) then
  since = now
  redis.call('SET', 'admission:since', now)
end
if known_life ~= life then redis.call('SET', 'admission:life', life) end
since = tonumber(since)
"""
BEGIN = LIFE + "return life"

# ARGV: requests and places (JSON), deadline after, remember ms, user rate, burst, address rate, burst, most tries of a
# user in a sale, ms after which no request is unpaid any more, most tries of an address. All requests are one text: a
# client library pays for each argument, Redis hardly.
# Units that an address holds unpaid: a hash of `units:admitted at` by request, and their sum. The sum is only corrected
# when it is too large, and then once a second: requests leave it that were refused, paid, returned, or are too old.
# What is remembered: body|user|admitted at|deadline|first (the life in which it was, or 0), and |topic/partition/offset
# once it has a place.
_ADMIT = (
    LIFE
    + """
local deadline_after, remember_ms = tonumber(ARGV[3]), tonumber(ARGV[4])
local remembers_from = math.max(since, now - remember_ms)
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
    tokens = math.min(burst, left + math.max(0, now - at) * rate / 1000)
  end
  local enough = tokens >= 1
  if enough then tokens = tokens - 1 end
  redis.call('SET', key, string.format('%.3f:%.0f', tokens, now), 'PX', math.ceil(burst / rate * 1000) + 1000)
  return enough
end
local user_rate, user_burst = tonumber(ARGV[5]), tonumber(ARGV[6])
local address_rate, address_burst = tonumber(ARGV[7]), tonumber(ARGV[8])
local most_tries, unpaid_ms, most_of_address = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local function unpaid(key, most)
  local known = redis.call('HMGET', key, 'sum', 'looked', 'tries')
  local sum, looked, tries = tonumber(known[1] or 0), tonumber(known[2] or 0), tonumber(known[3] or 0)
  if sum < most or now - looked < 1000 then return sum, tries end
  sum = 0
  local entries = redis.call('HGETALL', key)
  for at = 1, #entries, 2 do
    local units, since = string.match(entries[at + 1], '^(%d+):(%d+)$')
    if units then
      local shown = redis.call('GET', 'outcome:' .. entries[at])
      local is_open = now - since < unpaid_ms
      if shown then
        is_open = string.find(shown, '"RESERVED"', 1, true) or string.find(shown, '"AWAITING_PAYMENT"', 1, true)
      end
      if is_open then sum = sum + units else redis.call('HDEL', key, entries[at]) end
    end
  end
  redis.call('HSET', key, 'sum', sum, 'looked', now)
  return sum, tries
end
local after_closing_ms = 3600000
local function memory(opens, closes)
  if remembers_from < opens and now < closes + after_closing_ms then return '' end
  if now - since < deadline_after and since >= opens then return 'lost_just_now' end
  return 'lost'
end
local function judge(id, body, user, address, opens, closes, shut, ticket, number, expires, full,
                     sale, units, most_unpaid)
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
  local tries = 'admission:tries:' .. sale .. ':' .. user
  if tonumber(redis.call('GET', tries) or 0) >= most_tries then return 'too_many_tries' end
  local kept_ms = math.min(remember_ms, closes - now + after_closing_ms)
  if most_unpaid > 0 then
    local key = 'admission:unpaid:' .. sale .. ':' .. address
    local sum, of_address = unpaid(key, most_unpaid)
    if of_address >= most_of_address then return 'too_many_tries' end
    if sum > 0 and sum + units > most_unpaid then return 'too_many_unpaid' end
    redis.call('HSET', key, id, string.format('%.0f:%.0f', units, now), 'sum', sum + units,
      'tries', of_address + 1)
    redis.call('PEXPIRE', key, kept_ms)
  end
  if redis.call('INCR', tries) == 1 then redis.call('PEXPIRE', tries, kept_ms) end
  local first = '0'
  if remembers_from < opens then first = life end
  local value = string.format('%s|%s|%.0f|%.0f|%s', body, user, now, now + deadline_after, first)
  redis.call('SET', key, value, 'PX', kept_ms)
  redis.call('SET', 'admission:ticket:' .. number, id, 'PX', expires - now)
  return 'admitted', value
end
local answers = {}
for at, ask in ipairs(cjson.decode(ARGV[1])) do
  local verdict, value = judge(unpack(ask))
  answers[at] = verdict .. '|' .. (value or memory(ask[5], ask[6]))
end
return string.format('%.0f %s', now, life) .. '\\n' .. table.concat(answers, '\\n')
"""
)


@lru_cache(maxsize=1)
def redis() -> Redis:
    return bounded_redis.connect(settings.ENVIRONMENT.admission_redis_url, TIMEOUT_S, OPEN_S)


@lru_cache(maxsize=1)
def _script() -> Any:
    return redis().register_script(_ADMIT)


def admit(asks: Sequence[Ask], placed: Sequence[tuple[UUID, Place]] = ()) -> list[Admitted]:
    """One round trip for all; each judged in its turn. `placed`: requests that have got their place, to be remembered.
    `RedisError`: nobody knows who was admitted; asked again, each gets the same answer."""
    requests = orjson.dumps([tuple(ask) for ask in asks])
    places = orjson.dumps([(request_id, str(where)) for request_id, where in placed])
    arguments: list[bytes | int] = [
        requests, places, settings.ENVIRONMENT.purchase_deadline_s * 1000, REMEMBER_S * 1000, USER_RATE, USER_BURST,
        ADDRESS_RATE, ADDRESS_BURST, TRIES_MAX,
        (settings.ENVIRONMENT.purchase_deadline_s + settings.ENVIRONMENT.payment_ttl_s) * 1000, ADDRESS_TRIES_MAX,
    ]  # fmt: skip
    client, script = redis(), _script()
    try:
        told = client.evalsha(script.sha, 0, *arguments)
    except NoScriptError:
        told = client.eval(_ADMIT, 0, *arguments)
    head, *answers = str(told).split("\n")
    now, life = head.split(" ")
    # Without asks there is one empty line.
    return [_admitted(int(now), life, answer) for _, answer in zip(asks, answers, strict=False)]


def remember(request_id: UUID, fingerprint: str, user_id: str, now_ms: int, place: str) -> None:
    """A request that was forgotten and has been decided: it is known again, whatever has been put there since."""
    redis().set(request_key(request_id), f"{fingerprint}|{user_id}|{now_ms}|{now_ms}|0|{place}", ex=REMEMBER_S)


def remembered(value: str | None, life: str | None = None) -> Remembered | None:
    """From what `request_key` holds. `life`: the present one of Redis; of another life nothing is known to be first."""
    if not value:
        return None
    _, user_id, _, deadline, first, *where = value.split("|")
    is_first = first != "0" and life in (None, first)
    return Remembered(user_id, int(deadline), place(where[0]) if where else None, is_first)


def request_key(request_id: UUID) -> str:
    return f"admission:request:{request_id}"


def _admitted(now_ms: int, life: str, answer: str) -> Admitted:
    verdict, *known = answer.split("|")
    if verdict not in ("admitted", "known"):
        return Admitted(Verdict(verdict), now_ms, memory=Memory(known[0]))
    _, _, admitted_at, deadline, first, *where = known
    found = place(where[0]) if where else None
    return Admitted(Verdict(verdict), now_ms, int(admitted_at), int(deadline), found, first == life)
