"""Shell: read the gates of all stocks from Redis with one script, so that all values are from the same instant."""

from __future__ import annotations

from itertools import groupby
from typing import Any, cast

from seckill.config.redis_address import is_cluster
from seckill.report.identity import identity
from seckill.report.rows import GateState, Stock
from seckill.resilience import redis_client

# KEYS: free, granted, free, granted, …
_READ_ALL = """
local found = {}
for i = 1, #KEYS, 2 do
  found[#found + 1] = {redis.call('GET', KEYS[i]), redis.call('HGETALL', KEYS[i + 1])}
end
return found
"""


def read_gates(url: str, stocks: list[Stock]) -> list[GateState]:
    """The gates that are still in use. In a cluster the values of one sale are from one instant. Raises `RedisError` if
    Redis cannot be read."""
    stocks = sorted((stock for stock in stocks if not stock.gate_retired), key=lambda stock: stock.sale_id)
    answers: list[Any] = []
    client = redis_client.connect(url, timeout_s=10)
    try:
        for _, group in groupby(stocks, lambda stock: stock.sale_id if is_cluster(url) else 0):
            keys = [name for stock in group for name in _key_names(stock)]
            answers += cast("list[Any]", client.eval(_READ_ALL, len(keys), *keys))
    finally:
        client.close()
    gates = []
    for stock, (free, granted) in zip(stocks, answers, strict=True):
        units = dict(zip(map(identity, granted[::2]), map(int, granted[1::2]), strict=True))
        gates.append(GateState(stock.id, None if free is None else int(free), units))
    return gates


def _key_names(stock: Stock) -> tuple[str, str]:
    base = f"sale:{{{stock.sale_id}}}:gate:{stock.sku}:{stock.gate_epoch}"
    return f"{base}:free", f"{base}:granted"
