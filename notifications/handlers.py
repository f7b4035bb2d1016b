"""Three groups read order events, one a channel: each writes its deliveries and nothing more."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from notifications import tasks
from notifications.messages import text_of
from notifications.models import Delivery
from orders.events import read as read_order
from seckill.envelope import BadEnvelope
from seckill.streams import traces
from seckill.streams.records import Batch, Permanent
from seckill.topics import ORDER_EVENTS, Topic


class OrderEvents:
    topics: tuple[Topic, ...] = (ORDER_EVENTS,)

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.group = f"notify.{channel}"

    def handle(self, batch: Batch) -> None:
        deliveries = []
        now = timezone.now()
        for record in batch.records:
            try:
                changed = read_order(record.envelope)
            except BadEnvelope as bad:
                raise Permanent(str(bad)) from bad
            text = text_of(changed)
            if text is not None:
                deliveries.append(
                    Delivery(
                        event_id=record.envelope.event_id, channel=self.channel, user_id=changed.user_id, text=text,
                        traceparent=record.headers.get(traces.HEADER, "")[:55], due_at=now,
                    )
                )  # fmt: skip
        Delivery.objects.bulk_create(deliveries, ignore_conflicts=True)
        transaction.on_commit(lambda: tasks.enqueue(deliveries), robust=True)


def Sms() -> OrderEvents:
    return OrderEvents("sms")


def Email() -> OrderEvents:
    return OrderEvents("email")


def Push() -> OrderEvents:
    return OrderEvents("push")
