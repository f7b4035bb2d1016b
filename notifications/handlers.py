"""The consumers of notifications: one group per channel. Each writes deliveries; Celery workers send them."""

from __future__ import annotations

from django.db import transaction

from notifications import tasks
from notifications.message_texts import message_text
from notifications.models import Delivery
from notifications.states import ChannelName
from orders.events import parse_event as parse_order_event
from seckill.messaging.envelope import BadEnvelope
from seckill.messaging.records import Batch, PermanentFailure
from seckill.messaging.topics import ORDER_EVENTS, Topic
from seckill.monitoring import traces

TRACEPARENT_CHARACTERS_MAX = 55


class DeliveryHandler:
    topics: tuple[Topic, ...] = (ORDER_EVENTS,)

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.group = f"notify.{channel}"

    def handle(self, batch: Batch) -> None:
        deliveries = []
        for record in batch.records:
            try:
                changed = parse_order_event(record.envelope)
            except BadEnvelope as bad:
                raise PermanentFailure(str(bad)) from bad
            text = message_text(changed)
            if text is not None:
                traceparent = record.headers.get(traces.HEADER, "")[:TRACEPARENT_CHARACTERS_MAX]
                deliveries.append(
                    Delivery(
                        event_id=record.envelope.event_id, channel=self.channel, user_id=changed.user_id, text=text,
                        traceparent=traceparent,
                    )
                )  # fmt: skip
        Delivery.objects.bulk_create(deliveries, ignore_conflicts=True)
        transaction.on_commit(lambda: tasks.enqueue_deliveries(deliveries), robust=True)


def sms_handler() -> DeliveryHandler:
    return DeliveryHandler(ChannelName.SMS)


def email_handler() -> DeliveryHandler:
    return DeliveryHandler(ChannelName.EMAIL)


def push_handler() -> DeliveryHandler:
    return DeliveryHandler(ChannelName.PUSH)
