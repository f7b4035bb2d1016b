"""What inventory reads: purchase requests, to decide them; order events, to settle what was decided."""

from __future__ import annotations

from inventory.releasing import Settling, settle_all
from inventory.reserving import bury, discard, reserve
from orders.events import read as read_order
from seckill.envelope import BadEnvelope
from seckill.streams.records import Batch, Permanent
from seckill.topics import ORDER_EVENTS, PURCHASE_DIVERTED, PURCHASE_REQUESTS


class PurchaseRequests:
    group = "inventory"
    topics = (PURCHASE_REQUESTS, PURCHASE_DIVERTED)
    first = PURCHASE_DIVERTED
    most_records = 1000

    def handle(self, batch: Batch) -> None:
        reserve(batch)

    def discard(self, batch: Batch) -> None:
        discard(batch)

    def bury(self, batch: Batch) -> None:
        bury(batch)


class OrderEvents:
    group = "inventory.settlement"
    topics = (ORDER_EVENTS,)

    def handle(self, batch: Batch) -> None:
        events: list[Settling] = []
        for record in batch.records:
            try:
                events.append((record.envelope, read_order(record.envelope)))
            except BadEnvelope as bad:
                raise Permanent(str(bad)) from bad
        settle_all(events)
