"""Lab 11. Inventory stands still while requests arrive, and buyers give up. Broken: requests have no deadline. Fixed:
they have one, so units go to buyers who still wait. Minutes are seconds here."""

from __future__ import annotations

import time

from gateway.backlog import Backlog
from gateway.events import PurchaseRequested
from inventory.models import DecidedRequest, Stock
from seckill.lab.labs.child import Step
from seckill.lab.labs.lab import Bar, Chart, Observation, Variant
from seckill.lab.labs.steps import purchases
from seckill.messaging import database_clock
from seckill.messaging.topics import PURCHASE_REQUESTS

UNITS, GONE, WAITING, BATCH = 50, 200, 80, 40
PATIENCE_MS = 1500
PACE = 20.0
"""Decisions per second before the standstill, which the gateway has observed."""


def run(step: Step, variant: Variant) -> Observation:
    stock = purchases.create_stock(UNITS)
    old = _requests(stock, "gone", GONE, variant)
    step.tell(f"{GONE} requests arrive, and inventory stands still until their buyers have given up")
    time.sleep(PATIENCE_MS / 1000 + 0.2)
    fresh = _requests(stock, "waiting", WAITING, variant)
    step.tell(f"inventory is back; {WAITING} more buyers have just arrived")
    requests = old + fresh
    for start in range(0, len(requests), BATCH):
        purchases.decide(purchases.batch_of(requests[start : start + BATCH], 0, start))
    held = DecidedRequest.objects.filter(decision="RESERVED")
    for_the_gone = held.filter(user_id__startswith="gone").count()
    for_waiting = held.filter(user_id__startswith="waiting").count()
    too_late = DecidedRequest.objects.filter(decision="TOO_LATE").count()
    facts: dict[str, int | str] = {
        "requests": len(requests), "units": UNITS, "units held for buyers who have left": for_the_gone,
        "units for buyers who still wait": for_waiting, "decided TOO_LATE": too_late,
    }  # fmt: skip
    if variant is Variant.FIXED:
        facts["wait that the gateway would have estimated"] = f"{_estimated_wait_ms() / 1000:.0f} s, so 503 at the door"
    bars = (
        Bar("units for buyers who wait", for_waiting),
        Bar("decided TOO_LATE", too_late),
        Bar("units for buyers who left", for_the_gone, True),
    )
    return Observation(for_the_gone, facts, Chart(y="requests", bars=bars))


def _requests(stock: Stock, prefix: str, count: int, variant: Variant) -> list[PurchaseRequested]:
    patience_ms = PATIENCE_MS if prefix == "gone" else 60_000
    deadline_ms = purchases.FAR_MS if variant is Variant.BROKEN else database_clock.now_ms() + patience_ms
    return [purchases.request(stock, f"{prefix}-{number}", deadline_ms=deadline_ms) for number in range(count)]


def _estimated_wait_ms() -> int:
    """The gateway's own estimate for a queue of this length. It refuses requests whose wait exceeds their deadline."""
    backlog, partition = Backlog(_pace=PACE), (PURCHASE_REQUESTS.name, 0)
    backlog.observe(0.0, {partition: 0}, {partition: 0})
    backlog.observe(1.0, {partition: GONE}, {partition: 0})
    return backlog.wait_ms(PURCHASE_REQUESTS.name, 1.0) or 0
