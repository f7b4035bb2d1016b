"""The Lua scripts of admission and the Redis keys they use.

Each script has one declared key, `prefix`, which is empty outside a cluster. In a cluster it leads the call to the
server that has all of admission's keys (seckill/resilience/admission_keys.py); all other names begin with it.
"""

from __future__ import annotations

SINCE_KEY = "admission:since"
"""The time since which this run of Redis remembers requests. It may have forgotten older ones."""
LIFE_KEY = "admission:life"
"""The run_id to which `SINCE_KEY` belongs."""

# KEYS: prefix. Defines `prefix`, `now`, `life` (the run_id) and `since`. A `since` from another run is void, because
# anything may have been forgotten between the end of that run and the start of this one.
LIFE_LUA = """
local prefix = KEYS[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local life = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local since = redis.call('GET', prefix .. 'admission:since')
local known_life = redis.call('GET', prefix .. 'admission:life')
if not since or (known_life and known_life ~= life) then
  since = now
  redis.call('SET', prefix .. 'admission:since', now)
end
if known_life ~= life then redis.call('SET', prefix .. 'admission:life', life) end
since = tonumber(since)
"""
# KEYS: prefix, set of sales, the set's Redis run. Returns TIME, the sales, that run, and the present run.
BEGIN_MEMORY_LUA = LIFE_LUA + "return {time, redis.call('SMEMBERS', KEYS[2]), redis.call('GET', KEYS[3]) or '', life}"

# ARGV: requests and positions (JSON), deadline in ms, memory in ms, user rate, user burst, address rate, address burst,
# requests per user, ms after which no request can be unpaid, requests per address. All requests travel as one JSON
# text, because a client library pays for every argument and Redis hardly does.
#
# Unpaid units of an address: a hash of `units:admitted at` by request, and their sum. The sum is corrected only when it
# reaches the limit, and then at most once a second; requests leave it once they are refused, paid, returned or too old.
#
# A remembered request: body|user|admitted at|deadline|first (the run in which it was, or 0), and
# |topic/partition/offset once its position is known.
ADMIT_LUA = (
    LIFE_LUA
    + """
local deadline_after, remember_ms = tonumber(ARGV[3]), tonumber(ARGV[4])
local remembers_from = math.max(since, now - remember_ms)
for _, placed in ipairs(cjson.decode(ARGV[2])) do
  local key = prefix .. 'admission:request:' .. placed[1]
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
      local shown = redis.call('GET', prefix .. 'outcome:' .. entries[at])
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
  local key = prefix .. 'admission:request:' .. id
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
  local spent = redis.call('GET', prefix .. 'admission:ticket:' .. number)
  if spent and spent ~= id then return 'ticket_spent' end
  if not take(prefix .. 'admission:user:' .. user, user_rate, user_burst) then return 'too_many' end
  if not take(prefix .. 'admission:address:' .. address, address_rate, address_burst) then return 'too_many' end
  if full ~= '' then return full end
  local tries = prefix .. 'admission:tries:' .. sale .. ':' .. user
  if tonumber(redis.call('GET', tries) or 0) >= most_tries then return 'too_many_tries' end
  local kept_ms = math.min(remember_ms, closes - now + after_closing_ms)
  if most_unpaid > 0 then
    local key = prefix .. 'admission:unpaid:' .. sale .. ':' .. address
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
  redis.call('SET', prefix .. 'admission:ticket:' .. number, id, 'PX', expires - now)
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
