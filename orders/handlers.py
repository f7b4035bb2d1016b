"""What orders read: inventory's decisions."""

from __future__ import annotations

from inventory.events import PurchaseDecided
from inventory.events import read as read_inventory
from orders.placing import place
from seckill.envelope import BadEnvelope
from seckill.streams.records import Batch, Permanent
from seckill.topics import INVENTORY_DECISIONS


class Decisions:
    group = "orders"
    topics = (INVENTORY_DECISIONS,)

    def handle(self, batch: Batch) -> None:
        for record in batch.records:
            try:
                said = read_inventory(record.envelope)
            except BadEnvelope as bad:
                raise Permanent(str(bad)) from bad
            if isinstance(said, PurchaseDecided):
                place(record.envelope, said)
