"""R: what the gate has of every stock, in one script: one instant for all."""

from __future__ import annotations

from redis import Redis

from seckill.consistency.identity import identity
from seckill.consistency.rows import Gate, Stock

# KEYS: free, granted, free, granted, …
_ALL = """
local found = {}
for i = 1, #KEYS, 2 do
  found[#found + 1] = {redis.call('GET', KEYS[i]), redis.call('HGETALL', KEYS[i + 1])}
end
return found
"""


def read(url: str, stocks: list[Stock]) -> list[Gate]:
    """Of each stock whose gate is in use. `RedisError` if it cannot be read."""
    stocks = [stock for stock in stocks if not stock.gate_retired]
    keys = []
    for stock in stocks:
        base = f"sale:{{{stock.sale_id}}}:gate:{stock.sku}:{stock.gate_epoch}"
        keys += [f"{base}:free", f"{base}:granted"]
    client: Redis = Redis.from_url(url, socket_timeout=10, socket_connect_timeout=5, decode_responses=True)
    try:
        answers = client.eval(_ALL, len(keys), *keys) if keys else []
    finally:
        client.close()
    gates = []
    for stock, (free, granted) in zip(stocks, answers, strict=True):
        units = dict(zip(map(identity, granted[::2]), map(int, granted[1::2]), strict=True))
        gates.append(Gate(stock.id, None if free is None else int(free), units))
    return gates
