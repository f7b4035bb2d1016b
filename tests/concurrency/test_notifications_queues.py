"""From an order event to a Celery queue to the sink, on a real Redis. Queues only make deliveries prompt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from redis import Redis

from notifications import sweep, tasks
from notifications.delivery import lease_delivery
from notifications.handlers import DeliveryHandler
from notifications.models import Channel, Delivery
from orders.events import OrderChanged, OrderEvent
from seckill.messaging.records import Batch, ReceivedRecord
from seckill.monitoring import traces
from seckill.stack.child_processes import free_port
from tests.concurrency.notifications_cast import Phones, due, running_phones
from tests.concurrency.queues import arguments_of, celery_queues, tasks_in


@pytest.fixture
def phones(tmp_path: Path) -> Iterator[Phones]:
    with running_phones(tmp_path) as phones:
        yield phones


@pytest.fixture
def queue(redis: Redis) -> Iterator[Redis]:
    with celery_queues() as queues:
        yield queues


# ── the sweep ────────────────────────────────────────────────────────────────────────────────────


def test_the_sweep_enqueues_the_first_delivery_of_each_user_and_again_after_a_flush(queue: Redis) -> None:
    due("ann"), due("ann"), due("bob")
    due("ann", "email")
    assert not sweep.run_once()
    assert (len(tasks_in(queue, "notify.sms")), len(tasks_in(queue, "notify.email"))) == (2, 1)
    queue.flushdb()
    assert tasks.enqueue_due_deliveries() == 3


def test_a_delivery_that_is_already_in_a_queue_is_not_enqueued_again(queue: Redis) -> None:
    due("ann"), due("ann", "push")
    assert tasks.enqueue_due_deliveries() == 2
    due("bob")
    assert tasks.enqueue_due_deliveries() == 0
    queue.delete("notify.sms")
    assert tasks.enqueue_due_deliveries() == 2, "ann's was lost with the queue, bob's never was in it"


def test_a_delivery_that_a_worker_is_sending_is_not_enqueued(queue: Redis) -> None:
    row = due("ann")
    assert lease_delivery(row.event_id, "sms") is not None
    assert tasks.enqueue_due_deliveries() == 0


def test_a_queue_without_workers_stays_short(queue: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "QUEUE_TASKS_MAX", 10)
    every = [due(f"user-{number}") for number in range(15)]
    assert tasks.enqueue_due_deliveries() == 10
    assert tasks.enqueue_deliveries(every) == 0
    assert len(tasks_in(queue, "notify.sms")) == 10


def test_the_sweep_enqueues_nothing_for_a_channel_whose_breaker_is_open(queue: Redis) -> None:
    due("ann"), due("ann", "push")
    Channel.objects.create(name="sms", failures=9, open_until=timezone.now() + timedelta(minutes=1))
    assert tasks.enqueue_due_deliveries() == 1
    assert tasks_in(queue, "notify.sms") == []


def test_without_redis_deliveries_stay_due_until_it_is_back(queue: Redis) -> None:
    before = settings.ENVIRONMENT
    settings.ENVIRONMENT = replace(before, celery_redis_url=f"redis://127.0.0.1:{free_port()}/1")
    try:
        due()
        assert tasks.enqueue_due_deliveries() == 0
    finally:
        settings.ENVIRONMENT = before
    assert tasks.enqueue_due_deliveries() == 1


# ── from the topic to the sink ───────────────────────────────────────────────────────────────────


def received(event: OrderEvent, user: str, traceparent: str) -> ReceivedRecord:
    envelope = OrderChanged(event, uuid4(), uuid4(), user, 1, "phone", 1, 100, 5, 9).envelope(None, None)
    headers = {traces.HEADER: traceparent} if traceparent else {}
    return ReceivedRecord("order.events", 0, 0, 0, user, envelope, headers)


def handle(*records: ReceivedRecord) -> None:
    with transaction.atomic():
        DeliveryHandler("sms").handle(Batch("cluster", "topic", "order.events", 0, records))


def test_the_trace_of_an_event_reaches_celerys_headers_and_the_sink(queue: Redis, phones: Phones) -> None:
    trace = traces.root(uuid4())
    handle(received(OrderEvent.PAID, "ann", trace))
    [task] = tasks_in(queue, "notify.sms")
    assert task["headers"][traces.HEADER] == trace
    tasks.deliver_one.apply(args=arguments_of(task), headers={traces.HEADER: trace})
    [line] = phones.lines()
    assert line["traceparent"][:36] == trace[:36]
    assert line["traceparent"][36:52] != trace[36:52]


def test_an_event_read_twice_makes_one_delivery_and_an_unplaced_order_makes_none(queue: Redis) -> None:
    paid, unplaced = received(OrderEvent.PAID, "ann", ""), received(OrderEvent.NOT_PLACED, "bob", "")
    handle(paid, unplaced)
    handle(paid)
    assert [(row.user_id, row.channel) for row in Delivery.objects.all()] == [("ann", "sms")]


def test_the_end_of_one_delivery_enqueues_the_same_users_next_one(queue: Redis, phones: Phones) -> None:
    first, second = due(), due()
    tasks.deliver_one.apply(args=[str(first.event_id), "sms"])
    assert [UUID(arguments_of(task)[0]) for task in tasks_in(queue, "notify.sms")] == [second.event_id]
