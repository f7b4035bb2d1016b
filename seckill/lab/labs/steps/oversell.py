"""Lab 1. Broken: the stock is read without a lock and overwritten. Fixed: inventory as it is."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial

from inventory import gate, reservation
from inventory.models import Stock
from inventory.reservation import ArrivedRequest
from seckill.lab.labs.child import Step
from seckill.lab.labs.lab import Chart, Observation, Variant
from seckill.lab.labs.steps import purchases
from seckill.messaging.records import Batch

UNITS, CONSUMERS, BATCHES, BUYERS_PER_BATCH = 20, 8, 3, 5
PAUSE_S = 0.005
"""Between reading and writing: a call to a risk service, a cache, a log."""


def read_without_lock(stock_ids: Iterable[int]) -> dict[int, Stock]:
    found = {stock.id: stock for stock in Stock.objects.select_related("sale").filter(id__in=list(stock_ids))}
    time.sleep(PAUSE_S)
    return found


def overwrite_stock(stock: Stock, granted: list[ArrivedRequest]) -> None:
    units = sum(each.request.quantity for each in granted)
    Stock.objects.filter(id=stock.id).update(available=stock.available - units, reserved=stock.reserved + units)


def closed_gate(*_: object) -> list[gate.Proposal]:
    """Leaves the decision to the row, in both variants, because the row is what this lab examines."""
    return [gate.Proposal.CLOSED] * BUYERS_PER_BATCH


def run(step: Step, variant: Variant) -> Observation:
    stock = purchases.create_stock(UNITS)
    held_after_each_batch: list[int] = []

    def consume(partition: int) -> None:
        for number in range(BATCHES):
            purchases.decide(_batch(stock, partition, number))
            held_after_each_batch.append(purchases.held_units(stock))

    with ExitStack() as composed:
        composed.enter_context(purchases.replaced(gate, "propose", closed_gate))
        if variant is Variant.BROKEN:
            purchases.drop_constraints(
                ("inventory_stock", "inventory_stock_never_negative"), ("inventory_ledger", "inventory_ledger_version")
            )
            composed.enter_context(purchases.replaced(reservation, "lock_stocks", read_without_lock))
            composed.enter_context(purchases.replaced(reservation, "_move_to_reserved", overwrite_stock))
        purchases.in_threads([partial(consume, partition) for partition in range(CONSUMERS)])
    held = purchases.held_units(stock)
    stock.refresh_from_db()
    buyers = CONSUMERS * BATCHES * BUYERS_PER_BATCH
    points = [(float(at), float(count)) for at, count in enumerate([0, *sorted(held_after_each_batch)])]
    return Observation(
        max(0, held - UNITS),
        {
            "buyers": buyers, "units of the sale": UNITS, "units that buyers hold": held,
            "units left, says the stock row": stock.available,
        },
        Chart("batches decided:", "units that buyers hold", points, limit=UNITS, limit_name=f"{UNITS} units"),
    )  # fmt: skip


def _batch(stock: Stock, partition: int, number: int) -> Batch:
    users = [f"user-{partition}-{number}-{at}" for at in range(BUYERS_PER_BATCH)]
    return purchases.batch_of([purchases.request(stock, user) for user in users], partition, number * BUYERS_PER_BATCH)
