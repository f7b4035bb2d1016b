"""The relay publishes every row in order per key, whichever process crashes, and only one relay is active."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.future import Future
from kafka.partitioner import murmur2

from seckill.messaging.envelope import decode_envelope, new_envelope
from seckill.messaging.models import OutboxRow
from seckill.messaging.outbox import Event, OutboxInsert, insert_rows, publish
from seckill.messaging.relay import Relay
from seckill.messaging.topics import Topic
from seckill.monitoring import traces
from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.messaging_cast import EFFECTS, make_topic
from tests.services import Services, until

COUNT = 200
KEYS = 7


def say(topic: Topic, numbers: Sequence[int], cause: UUID | None = None) -> None:
    with transaction.atomic():
        publish(
            Event(topic, f"user{n % KEYS}", new_envelope("Said", 1, {"n": n}, cause=cause, origin=None))
            for n in numbers
        )


def read(broker: BrokerProcess, topic: Topic) -> list[Any]:
    """Everything that is in the topic now."""
    consumer = KafkaConsumer(bootstrap_servers=broker.address, auto_offset_reset="earliest", enable_auto_commit=False)
    partitions = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    records: list[Any] = []
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        for polled in consumer.poll(timeout_ms=200).values():
            records += polled
    consumer.close()
    return records


def by_key(records: Sequence[Any]) -> dict[str, list[int]]:
    numbers_by_key: dict[str, list[int]] = {}
    for each in records:
        numbers_by_key.setdefault(each.key.decode(), []).append(decode_envelope(each.value).body["n"])
    return numbers_by_key


def in_order(count: int = COUNT) -> dict[str, list[int]]:
    return {f"user{key}": list(range(key, count, KEYS)) for key in range(KEYS)}


def is_published() -> bool:
    return not OutboxRow.objects.exists()


@contextmanager
def relaying(broker: BrokerProcess) -> Iterator[Relay]:
    running = Relay([EFFECTS], broker.address)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        yield running
    finally:
        running.stop()
        thread.join(30)
        assert not thread.is_alive()


def test_published_events_arrive_in_order_per_key_and_their_rows_are_deleted(broker: BrokerProcess) -> None:
    topic = make_topic(broker.address)
    with relaying(broker):
        for start in range(0, COUNT, 50):
            say(topic, range(start, start + 50))
        until(is_published, "an empty outbox")
    assert by_key(read(broker, topic)) == in_order()


def test_an_event_is_published_only_if_its_transaction_commits(broker: BrokerProcess) -> None:
    topic = make_topic(broker.address)
    with relaying(broker):
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            say(topic, [1])
            _ = 1 // 0
        say(topic, [2])
        until(is_published, "an empty outbox")
    assert [decode_envelope(each.value).body["n"] for each in read(broker, topic)] == [2]


def test_a_row_whose_transaction_commits_late_is_published(broker: BrokerProcess) -> None:
    """Its id is lower than the ids already published, so a relay that selects ids above the last one would miss it."""
    topic = make_topic(broker.address)
    begun, done = threading.Event(), threading.Event()

    def late() -> None:
        with transaction.atomic():
            say(topic, [0])
            begun.set()
            assert done.wait(30)
        connection.close()

    thread = threading.Thread(target=late)
    thread.start()
    assert begun.wait(10)
    with relaying(broker):
        say(topic, [1])
        until(lambda: len(read(broker, topic)) == 1, "the earlier row")
        done.set()
        thread.join(10)
        until(is_published, "an empty outbox")
    assert [decode_envelope(each.value).body["n"] for each in read(broker, topic)] == [1, 0]


def process(services: Services, fault: str = "") -> subprocess.Popen[bytes]:
    code = (
        "import django; django.setup(); from django.conf import settings; from seckill.messaging.relay import Relay;"
        f"Relay([{EFFECTS!r}], settings.ENVIRONMENT.kafka_bootstrap_servers).run()"
    )
    return subprocess.Popen([sys.executable, "-c", code], env=services.environment(SECKILL_FAULT=fault))


def test_a_relay_killed_between_send_and_delete_repeats_events_but_keeps_their_order(
    broker: BrokerProcess, services: Services
) -> None:
    topic = make_topic(broker.address)
    say(topic, range(COUNT))
    assert process(services, f"relay.{EFFECTS}.before_delete").wait(60) == -signal.SIGKILL
    assert OutboxRow.objects.count() == COUNT
    with relaying(broker):
        until(is_published, "an empty outbox")
    numbers_by_key = by_key(read(broker, topic))
    assert {key: list(dict.fromkeys(numbers)) for key, numbers in numbers_by_key.items()} == in_order(), (
        "first occurrences in order"
    )
    assert sum(map(len, numbers_by_key.values())) == 2 * COUNT, "the kill happened between send and delete"


def test_a_second_relay_takes_over_only_when_the_first_dies(broker: BrokerProcess, services: Services) -> None:
    topic = make_topic(broker.address)
    first = process(services)
    try:
        say(topic, range(COUNT // 2))
        until(is_published, "the first relay to be active")
        with relaying(broker):
            assert holders() == 1
            say(topic, range(COUNT // 2, COUNT))
            until(is_published, "an empty outbox")
            first.kill()
            first.wait()
            say(topic, range(COUNT, 2 * COUNT))
            until(is_published, "the second relay to be active")
    finally:
        first.kill()
        first.wait()
    assert by_key(read(broker, topic)) == in_order(2 * COUNT)


def holders() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted")
        return int(cursor.fetchone()[0])


def test_a_broker_outage_delays_events_without_reordering_them(broker: BrokerProcess) -> None:
    topic = make_topic(broker.address)
    with relaying(broker):
        say(topic, range(COUNT // 2))
        until(is_published, "the first half")
        broker.kill()
        say(topic, range(COUNT // 2, COUNT))
        assert OutboxRow.objects.count() == COUNT // 2
        broker.start()
        until(is_published, "an empty outbox")
    numbers_by_key = by_key(read(broker, topic))
    assert {key: list(dict.fromkeys(numbers)) for key, numbers in numbers_by_key.items()} == in_order()


def test_an_offline_partition_delays_only_its_own_rows_and_keeps_their_order(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(broker.address)
    offline = threading.Event()
    offline.set()
    held: list[tuple[Any, Any]] = []
    send = KafkaProducer.send

    def stalling(self: KafkaProducer, to: str, partition: int, **record: Any) -> Any:
        """Like an offline partition: no answer until it is back."""
        if partition != 0 or not offline.is_set():
            return send(self, to, partition=partition, **record)
        future = Future()
        held.append((future, lambda: send(self, to, partition=partition, **record)))
        return future

    monkeypatch.setattr(KafkaProducer, "send", stalling)
    monkeypatch.setattr("seckill.messaging.relay.BATCH_SECONDS_MAX", 0.1)
    with relaying(broker):
        for start in range(0, COUNT, 20):
            say(topic, range(start, start + 20))
        others = sum(1 for number in range(COUNT) if partition_of(number) != 0)
        until(lambda: OutboxRow.objects.count() == COUNT - others, "the rows of the other partition")
        assert 0 < others < COUNT and {each.partition for each in read(broker, topic)} == {1}
        offline.clear()
        for future, really in held:
            really().get(10)
            future.success(None)
        until(is_published, "an empty outbox")
    assert by_key(read(broker, topic)) == in_order()


def partition_of(number: int) -> int:
    return int(murmur2(f"user{number % KEYS}".encode()) & 0x7FFFFFFF) % 2


def test_a_record_that_the_broker_rejects_is_set_aside_and_later_ones_are_published(broker: BrokerProcess) -> None:
    topic = make_topic(broker.address, partitions=1)
    huge = OutboxInsert(topic.name, "user0", uuid4(), bytes(2_000_000), {})
    with transaction.atomic():
        say(topic, [0])
        insert_rows(EFFECTS, [huge])
        say(topic, range(KEYS, 3 * KEYS))
    with relaying(broker):
        until(lambda: not OutboxRow.objects.filter(writer=EFFECTS).exists(), "the other rows")
    assert OutboxRow.objects.get().writer == f"{EFFECTS}.refused", "an operator can find it"
    numbers_by_key = {key: list(dict.fromkeys(numbers)) for key, numbers in by_key(read(broker, topic)).items()}
    assert numbers_by_key["user0"] == [0, KEYS, 2 * KEYS]


def test_an_event_carries_the_trace_of_its_cause(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = make_topic(broker.address)
    request = uuid4()
    came_with = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with relaying(broker):
        with traces.entered([(request, came_with)]):
            say(topic, [0], cause=request)
        until(is_published, "an empty outbox")
    [numbers_by_key] = read(broker, topic)
    headers = {name: content.decode() for name, content in numbers_by_key.headers}
    trace, span = headers["traceparent"].split("-")[1:3]
    assert trace == "0af7651916cd43dd8448eb211c80319c"
    assert span == decode_envelope(numbers_by_key.value).event_id.hex[:16]


def test_a_relay_stops_during_a_broker_outage(broker: BrokerProcess) -> None:
    topic = make_topic(broker.address)
    with relaying(broker) as relay:
        say(topic, [0])
        until(is_published, "the first row")
        producer = relay._producer
        assert producer is not None
        broker.kill()
        say(topic, [1])
        until(lambda: producer._accumulator.has_incomplete, "the second row to be in flight")
    assert producer._closed, "its thread has ended"
    assert OutboxRow.objects.count() == 1
    broker.start()
