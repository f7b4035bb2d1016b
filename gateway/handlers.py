"""The consumer that projects decisions and order events to what buyers see."""

from __future__ import annotations

from uuid import UUID

from gateway import outcome_cache
from gateway.outcomes import Event, project_events
from inventory.events import parse_event as parse_inventory_event
from orders.events import parse_event as parse_order_event
from seckill.messaging.envelope import BadEnvelope
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.records import Batch, PermanentFailure
from seckill.messaging.topics import INVENTORY_DECISIONS, ORDER_EVENTS


class Outcomes:
    group = "gateway.outcomes"
    topics = (INVENTORY_DECISIONS, ORDER_EVENTS)

    def handle(self, batch: Batch) -> None:
        parse_event = parse_order_event if batch.topic == ORDER_EVENTS.name else parse_inventory_event
        events: list[Event] = []
        positions: dict[UUID, str] = {}
        for record in batch.records:
            try:
                event = parse_event(record.envelope)
            except BadEnvelope as bad:
                raise PermanentFailure(str(bad)) from bad
            events.append(event)
            if (origin := record.envelope.origin) is not None:
                positions[event.request_id] = str(RecordPosition(*origin))
        outcome_cache.store_outcomes(project_events(events, positions), notify=True)
