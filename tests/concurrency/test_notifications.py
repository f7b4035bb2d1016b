"""Deliveries on a real Postgres and Redis, with the sandbox's sinks as the other side: one effect each, in order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from redis import Redis

from loadtest.sandbox.serving import serve
from loadtest.sandbox.sinks import Sinks
from notifications import breaker, delivery, sinks, tasks
from notifications.breaker import Leave
from notifications.delivery import deliver
from notifications.handlers import OrderEvents
from notifications.models import Channel, Delivery
from orders.events import OrderChanged, OrderEvent
from seckill.audit.trail import listed
from seckill.breaker import State
from seckill.stack.broker import free_port
from seckill.streams import traces
from seckill.streams.records import Batch, Received
from tests.concurrency.queues import arguments_of, celery_queues, tasks_in
from tests.services import together


class Phones:
    """The sinks as a test sees them."""

    def __init__(self, folder: Path) -> None:
        self._sinks = Sinks(folder)
        self._log = folder / "sinks.jsonl"
        self.port = free_port()
        self._server = serve(self.port, self._sinks.answer)

    def told(self, channel: str, mode: str, times: int | None = None) -> None:
        said = {"channel": channel, "mode": mode, "times": times}
        assert self._sinks.answer("POST", "/control", said, {})[0] == 200

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._sinks.close()

    def lines(self) -> list[dict[str, Any]]:
        said = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [line for line in said if line["what"] != "control"]

    def counts(self) -> Counter[str]:
        return Counter(line["what"] for line in self.lines())


@pytest.fixture
def phones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Phones]:
    phones = Phones(tmp_path)
    before = settings.ENVIRONMENT
    settings.ENVIRONMENT = replace(before, sinks_url=f"http://127.0.0.1:{phones.port}")
    monkeypatch.setattr(sinks, "PATIENCE_S", 1.0)
    yield phones
    settings.ENVIRONMENT = before
    phones.close()


def due(user: str = "ann", channel: str = "sms", **more: Any) -> Delivery:
    return Delivery.objects.create(
        event_id=uuid4(), channel=channel, user_id=user, text="paid", due_at=timezone.now(), **more
    )


def attempt(row: Delivery) -> str | None:
    """Its state afterwards; None: it was left alone."""
    ended = deliver(row.event_id, row.channel)
    return None if ended is None else ended.state


def hurry() -> None:
    """As if the pauses were over."""
    Delivery.objects.update(due_at=timezone.now())


def later(seconds: float) -> None:
    """As if so much time had passed for the breaker."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE notifications_channel SET open_until = open_until - make_interval(secs => %s)", [seconds]
        )


# ── one effect ───────────────────────────────────────────────────────────────────────────────────


def test_a_delivery_attempted_by_many_at_once_is_told_once(phones: Phones) -> None:
    row = due()
    assert Counter(together([partial(attempt, row)] * 6))["done"] == 1
    assert phones.counts() == {"effect": 1}


def test_without_the_lock_on_its_row_it_is_told_again(phones: Phones) -> None:
    """The control; the sink counts one effect all the same, by the key."""
    row = due()
    together([partial(sinks.tell, row, "")] * 3)
    assert phones.counts() == {"effect": 1, "again": 2}


def test_a_connection_cut_after_the_effect_is_told_again_and_has_it_once(phones: Phones) -> None:
    row = due()
    phones.told("sms", "cut", times=1)
    assert attempt(row) == "due"
    hurry()
    assert attempt(row) == "done"
    assert phones.counts() == {"effect": 1, "again": 1}


def test_a_worker_that_dies_in_the_middle_leaves_the_delivery_due(
    phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = due()
    with monkeypatch.context() as dying:
        dying.setattr(sinks, "tell", lambda *_: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(SystemExit):
            attempt(row)
    assert attempt(row) == "done"


# ── order, retries ───────────────────────────────────────────────────────────────────────────────


def test_a_delivery_waits_for_the_same_users_previous_one_on_that_channel(phones: Phones) -> None:
    first, second, other = due("ann"), due("ann"), due("bob")
    elsewhere = due("ann", "email")
    assert attempt(second) is None
    assert attempt(other) == attempt(elsewhere) == "done"
    ended = deliver(first.event_id, first.channel)
    assert ended is not None and ended.after == second
    assert attempt(second) == "done"


def test_a_failure_is_tried_again_later_and_later(phones: Phones) -> None:
    row = due()
    phones.told("sms", "fail", times=2)
    pauses = []
    for _ in range(2):
        hurry()
        before = timezone.now()
        assert attempt(row) == "due"
        row.refresh_from_db()
        pauses.append((row.due_at - before).total_seconds())
        assert attempt(row) is None
    assert pauses[1] > pauses[0] >= delivery.FIRST_PAUSE_S
    hurry()
    assert attempt(row) == "done"


def test_a_message_the_sink_will_not_have_is_given_up_and_holds_up_nobody(phones: Phones) -> None:
    first, second = due(), due()
    phones.told("sms", "refuse", times=1)
    assert attempt(first) == "given_up"
    assert attempt(second) == "done"
    assert breaker.look("sms").state is State.CLOSED


def test_what_was_given_up_is_sent_again_on_an_operators_word_and_has_its_effect_once(phones: Phones) -> None:
    row = due()
    phones.told("sms", "refuse", times=1)
    assert attempt(row) == "given_up"
    delivery.again(row.pk)
    assert attempt(row) == "done"
    with pytest.raises(delivery.NotGivenUp, match="is done"):
        delivery.again(row.pk)
    assert phones.counts()["effect"] == 1
    assert [entry.result.partition(":")[0] for entry in listed(verb="messages again")] == ["done", "NotGivenUp"]


# ── the breaker ──────────────────────────────────────────────────────────────────────────────────


def broken(phones: Phones, channel: str = "sms") -> None:
    phones.told(channel, "fail")
    for number in range(breaker.MOST_FAILURES):
        assert attempt(due(f"victim-{number}", channel)) == "due"


def test_a_sink_that_keeps_failing_is_left_alone_and_the_other_channels_are_not(phones: Phones) -> None:
    broken(phones)
    assert breaker.look("sms").state is State.OPEN
    assert attempt(due("late")) is None
    assert attempt(due("late", "email")) == attempt(due("late", "push")) == "done"
    assert phones.counts() == {"refused": breaker.MOST_FAILURES, "effect": 2}


def test_half_open_one_worker_tries_for_all(phones: Phones) -> None:
    broken(phones)
    later(breaker.LONGEST_OPEN_S)
    assert breaker.look("sms").state is State.HALF_OPEN
    assert Counter(together([partial(breaker.ask, "sms")] * 5)) == {Leave.PROBE: 1, Leave.NO: 4}


def test_a_success_of_the_one_closes_it_and_a_failure_opens_it_for_longer(phones: Phones) -> None:
    broken(phones)
    later(breaker.LONGEST_OPEN_S)
    assert attempt(due("first")) == "due"
    assert breaker.look("sms") == (State.OPEN, breaker.MOST_FAILURES + 1)
    later(breaker.LONGEST_OPEN_S)
    phones.told("sms", "ok")
    assert attempt(due("second")) == "done"
    assert breaker.look("sms") == (State.CLOSED, 0)


def test_a_probe_with_nothing_to_tell_is_put_back(phones: Phones) -> None:
    broken(phones)
    later(breaker.LONGEST_OPEN_S)
    assert deliver(uuid4(), "sms") is None
    assert breaker.ask("sms") is Leave.PROBE


def test_failures_that_are_not_in_a_row_open_nothing(phones: Phones) -> None:
    for number in range(breaker.MOST_FAILURES * 2):
        phones.told("sms", "fail" if number % 2 else "ok")
        attempt(due(f"user-{number}"))
    assert breaker.look("sms").state is State.CLOSED


# ── queues ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def queue(redis: Redis) -> Iterator[Redis]:
    with celery_queues() as queues:
        yield queues


def test_the_sweep_enqueues_whose_turn_it_is_and_again_what_was_flushed(queue: Redis) -> None:
    due("ann"), due("ann"), due("bob")
    due("ann", "email")
    assert tasks.enqueue_due() == 3
    assert (len(tasks_in(queue, "notify.sms")), len(tasks_in(queue, "notify.email"))) == (2, 1)
    queue.flushdb()
    assert tasks.enqueue_due() == 3


def test_what_stands_in_a_queue_already_is_not_enqueued_again(queue: Redis) -> None:
    due("ann"), due("ann", "push")
    assert tasks.enqueue_due() == 2
    due("bob")
    assert tasks.enqueue_due() == 0
    queue.delete("notify.sms")
    assert tasks.enqueue_due() == 2, "ann's was lost with the queue, bob's never stood in it"


def test_a_queue_that_nobody_empties_stays_short(queue: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MOST_QUEUED", 10)
    every = [due(f"user-{number}") for number in range(15)]
    assert tasks.enqueue_due() == 10
    assert tasks.enqueue(every) == 0
    assert len(tasks_in(queue, "notify.sms")) == 10


def test_the_sweep_leaves_a_channel_alone_while_its_breaker_is_open(queue: Redis) -> None:
    due("ann"), due("ann", "push")
    Channel.objects.create(name="sms", failures=9, open_until=timezone.now() + timedelta(minutes=1))
    assert tasks.enqueue_due() == 1
    assert tasks_in(queue, "notify.sms") == []


def test_a_queue_that_is_away_costs_promptness_and_nothing_else(queue: Redis) -> None:
    before = settings.ENVIRONMENT
    settings.ENVIRONMENT = replace(before, celery_redis_url=f"redis://127.0.0.1:{free_port()}/1")
    try:
        due()
        assert tasks.enqueue_due() == 0
    finally:
        settings.ENVIRONMENT = before
    assert tasks.enqueue_due() == 1


# ── from the topic to the sink ───────────────────────────────────────────────────────────────────


def received(event: OrderEvent, user: str, traceparent: str) -> Received:
    said = OrderChanged(event, uuid4(), uuid4(), user, 1, "phone", 1, 100, 5, 9).envelope(None, None)
    return Received("order.events", 0, 0, 0, user, said, {traces.HEADER: traceparent} if traceparent else {})


def handled(*records: Received) -> None:
    with transaction.atomic():
        OrderEvents("sms").handle(Batch("cluster", "topic", "order.events", 0, records))


def test_the_trace_of_an_event_reaches_celerys_headers_and_the_sink(queue: Redis, phones: Phones) -> None:
    trace = traces.root(uuid4())
    record = received(OrderEvent.PAID, "ann", trace)
    handled(record)
    [task] = tasks_in(queue, "notify.sms")
    assert task["headers"][traces.HEADER] == trace
    tasks.deliver_one.apply(args=arguments_of(task), headers={traces.HEADER: trace})
    [line] = phones.lines()
    assert line["traceparent"][:36] == trace[:36]
    assert line["traceparent"][36:52] != trace[36:52]


def test_an_event_read_twice_is_one_delivery_and_a_loser_hears_nothing(queue: Redis) -> None:
    paid, lost = received(OrderEvent.PAID, "ann", ""), received(OrderEvent.NOT_PLACED, "bob", "")
    handled(paid, lost)
    handled(paid)
    assert [(row.user_id, row.channel) for row in Delivery.objects.all()] == [("ann", "sms")]


def test_the_end_of_one_delivery_enqueues_the_same_users_next(queue: Redis, phones: Phones) -> None:
    first, second = due(), due()
    tasks.deliver_one.apply(args=[str(first.event_id), "sms"])
    assert [UUID(arguments_of(task)[0]) for task in tasks_in(queue, "notify.sms")] == [second.event_id]
