"""What the gateway reads: everything that changes what a buyer is to be told."""

from __future__ import annotations

from uuid import UUID

from gateway import shown
from gateway.outcomes import Event, project
from gateway.places import Place
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
        places: dict[UUID, str] = {}
        for record in batch.records:
            try:
                event = read(record.envelope)
            except BadEnvelope as bad:
                raise Permanent(str(bad)) from bad
            events.append(event)
            if (origin := record.envelope.origin) is not None:
                places[event.request_id] = str(Place(*origin))
        shown.keep(project(events, places), tell=True)
