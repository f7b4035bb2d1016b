"""Consumers of inventory: purchase requests, which it decides, and order events, which it settles."""

from __future__ import annotations

from inventory.reservation import decide_batch, decide_discarded, release_dead_letter_grants
from inventory.settlement import SettlementEvent, settle_events
from orders.events import parse_event as parse_order_event
from seckill.messaging.envelope import BadEnvelope
from seckill.messaging.records import Batch, PermanentFailure
from seckill.messaging.topics import ORDER_EVENTS, PURCHASE_DIVERTED, PURCHASE_REQUESTS


class PurchaseRequestHandler:
    group = "inventory"
    topics = (PURCHASE_REQUESTS, PURCHASE_DIVERTED)
    priority_topic = PURCHASE_DIVERTED
    batch_records_max = 1000

    def handle(self, batch: Batch) -> None:
        decide_batch(batch)

    def on_discard(self, batch: Batch) -> None:
        decide_discarded(batch)

    def on_dead_letter(self, batch: Batch) -> None:
        release_dead_letter_grants(batch)


class SettlementHandler:
    group = "inventory.settlement"
    topics = (ORDER_EVENTS,)

    def handle(self, batch: Batch) -> None:
        events: list[SettlementEvent] = []
        for record in batch.records:
            try:
                events.append((record.envelope, parse_order_event(record.envelope)))
            except BadEnvelope as bad:
                raise PermanentFailure(str(bad)) from bad
        settle_events(events)
