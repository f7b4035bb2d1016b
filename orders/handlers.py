"""The consumer of orders: inventory's decisions."""

from __future__ import annotations

from django.db import transaction

from inventory.events import PurchaseDecided
from inventory.events import parse_event as parse_inventory_event
from orders import tasks
from orders.placement import place_orders, record_unplaced_orders
from seckill.messaging.envelope import BadEnvelope, Envelope
from seckill.messaging.records import Batch, PermanentFailure
from seckill.messaging.topics import INVENTORY_DECISIONS


class DecisionHandler:
    group = "orders"
    topics = (INVENTORY_DECISIONS,)
    batch_records_max = 1000

    def handle(self, batch: Batch) -> None:
        placed = place_orders(_parse_decisions(batch))
        if placed:
            transaction.on_commit(lambda: tasks.schedule_expiry(placed[0].pay_before), robust=True)

    def on_discard(self, batch: Batch) -> None:
        record_unplaced_orders(_parse_decisions(batch))


def _parse_decisions(batch: Batch) -> list[tuple[Envelope, PurchaseDecided]]:
    decisions = []
    for record in batch.records:
        try:
            event = parse_inventory_event(record.envelope)
        except BadEnvelope as bad:
            raise PermanentFailure(str(bad)) from bad
        if isinstance(event, PurchaseDecided):
            decisions.append((record.envelope, event))
    return decisions
