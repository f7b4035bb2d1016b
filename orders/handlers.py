"""What orders read: inventory's decisions."""

from __future__ import annotations

from django.db import transaction

from inventory.events import PurchaseDecided
from inventory.events import read as read_inventory
from orders import tasks
from orders.placing import give_up, place
from seckill.envelope import BadEnvelope, Envelope
from seckill.streams.records import Batch, Permanent
from seckill.topics import INVENTORY_DECISIONS


class Decisions:
    group = "orders"
    topics = (INVENTORY_DECISIONS,)
    most_records = 1000

    def handle(self, batch: Batch) -> None:
        made = place(_decisions(batch))
        if made:
            transaction.on_commit(lambda: tasks.expire_at(made[0].pay_before), robust=True)

    def discard(self, batch: Batch) -> None:
        give_up(_decisions(batch))


def _decisions(batch: Batch) -> list[tuple[Envelope, PurchaseDecided]]:
    decisions = []
    for record in batch.records:
        try:
            said = read_inventory(record.envelope)
        except BadEnvelope as bad:
            raise Permanent(str(bad)) from bad
        if isinstance(said, PurchaseDecided):
            decisions.append((record.envelope, said))
    return decisions
