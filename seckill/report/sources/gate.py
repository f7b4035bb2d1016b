"""Shell: read the gate of every stock from Redis with one script, so that all values are from the same instant."""

from __future__ import annotations

from redis import Redis

from seckill.report.identity import identity
from seckill.report.rows import GateState, Stock

# KEYS: free, granted, free, granted, …
_READ_ALL = """
local found = {}
for i = 1, #KEYS, 2 do
  found[#found + 1] = {redis.call('GET', KEYS[i]), redis.call('HGETALL', KEYS[i + 1])}
end
return found
"""


def read_gates(url: str, stocks: list[Stock]) -> list[GateState]:
    """The gates that are still in use. Raises `RedisError` if Redis cannot be read."""
    stocks = [stock for stock in stocks if not stock.gate_retired]
    keys = []
    for stock in stocks:
        base = f"sale:{{{stock.sale_id}}}:gate:{stock.sku}:{stock.gate_epoch}"
        keys += [f"{base}:free", f"{base}:granted"]
    client: Redis = Redis.from_url(url, socket_timeout=10, socket_connect_timeout=5, decode_responses=True)
    try:
        answers = client.eval(_READ_ALL, len(keys), *keys) if keys else []
    finally:
        client.close()
    gates = []
    for stock, (free, granted) in zip(stocks, answers, strict=True):
        units = dict(zip(map(identity, granted[::2]), map(int, granted[1::2]), strict=True))
        gates.append(GateState(stock.id, None if free is None else int(free), units))
    return gates
