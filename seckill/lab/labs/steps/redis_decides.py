"""Lab 3. FLUSHALL during a sale. Broken: the counter in Redis decides. Fixed: it proposes, and the row decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.events import PurchaseRequested
from inventory import gate
from inventory.models import Hold, Stock
from seckill.lab.labs.child import Step
from seckill.lab.labs.lab import Chart, Observation, Variant
from seckill.lab.labs.steps import purchases

UNITS, BATCHES, BUYERS_PER_BATCH, FLUSH_AFTER = 30, 10, 5, 4

# KEYS: the counter. ARGV: the units of the sale, for the first call and for every call that finds no counter.
_TAKE = """
local left = tonumber(redis.call('GET', KEYS[1]) or ARGV[1])
if left < 1 then return 0 end
redis.call('SET', KEYS[1], left - 1)
return 1
"""


def decide_in_redis(stock: Stock, requests: Sequence[PurchaseRequested]) -> None:
    """One script call for each buyer decides; the database only records it."""
    take = gate.redis().register_script(_TAKE)
    granted = [each for each in requests if take([f"sale:{stock.sale_id}:left"], [UNITS])]
    Hold.objects.bulk_create(
        [
            Hold(
                request_id=each.request_id, stock=stock, sale_id=stock.sale_id, user_id=each.user_id,
                quantity=each.quantity, state="reserved", origin=["lab", 0, 0],
            )
            for each in granted
        ]
    )  # fmt: skip


def run(step: Step, variant: Variant) -> Observation:
    stock = purchases.create_stock(UNITS)
    points = [(0.0, 0.0)]
    decide: Callable[[Stock, Sequence[PurchaseRequested]], None] = decide_in_redis
    if variant is Variant.FIXED:
        offsets = iter(range(0, BATCHES * BUYERS_PER_BATCH, BUYERS_PER_BATCH))

        def decide(stock: Stock, requests: Sequence[PurchaseRequested]) -> None:
            purchases.decide(purchases.batch_of(requests, 0, next(offsets)))

    for number in range(BATCHES):
        if number == FLUSH_AFTER:
            gate.redis().flushall()
            step.tell(f"FLUSHALL after {FLUSH_AFTER * BUYERS_PER_BATCH} buyers")
        users = [f"user-{number}-{at}" for at in range(BUYERS_PER_BATCH)]
        decide(stock, [purchases.request(stock, user) for user in users])
        points.append((number + 1.0, float(purchases.held_units(stock))))
    held = purchases.held_units(stock)
    stock.refresh_from_db()
    facts = {"buyers": BATCHES * BUYERS_PER_BATCH, "units of the sale": UNITS, "units that buyers hold": held}
    if variant is Variant.FIXED:
        facts["times that inventory rebuilt the gate"] = stock.gate_epoch - 1
    return Observation(
        max(0, held - UNITS),
        facts,
        Chart("batches:", "units that buyers hold", points, limit=UNITS, limit_name=f"{UNITS} units"),
    )
