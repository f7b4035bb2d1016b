"""What the gateway reads: everything that changes what a buyer is to be told."""

from __future__ import annotations

from gateway import shown
from gateway.outcomes import Event, project
from inventory.events import read as read_inventory
from orders.events import read as read_order
from seckill.envelope import BadEnvelope
from seckill.streams.records import Batch, Permanent
from seckill.topics import INVENTORY_DECISIONS, ORDER_EVENTS


class Outcomes:
    group = "gateway.outcomes"
    topics = (INVENTORY_DECISIONS, ORDER_EVENTS)

    def handle(self, batch: Batch) -> None:
        read = read_order if batch.topic == ORDER_EVENTS.name else read_inventory
        events: list[Event] = []
        for record in batch.records:
            try:
                events.append(read(record.envelope))
            except BadEnvelope as bad:
                raise Permanent(str(bad)) from bad
        shown.keep(project(events), tell=True)
