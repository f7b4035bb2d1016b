"""The gateway's producer while one partition of the queue is offline or the broker is frozen, and afterwards."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from gateway import producer as gateway_producer
from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.messaging_cast import make_topic, value


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, {"auto.create.topics.enable": "false"}) as process:
        monkeypatch.setattr(
            settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, kafka_bootstrap_servers=process.address)
        )
        monkeypatch.setattr(gateway_producer, "DELIVERY_SECONDS_MAX", 5.2)
        yield process


def test_an_offline_partition_stops_no_other_and_is_used_again_when_it_returns(own: BrokerProcess) -> None:
    topic = make_topic(own.address, partitions=3)
    producer = gateway_producer.connect_producer()
    for partition in range(3):
        producer.send(topic.name, key=b"user", value=value("before"), partition=partition).get(10)
    own.stop()
    [segment] = (own.data / f"{topic.name}-0").glob("*.log")
    whole = segment.read_bytes()
    segment.unlink()
    segment.mkdir()
    own.start()
    for _ in range(2):  # each of them expires
        with pytest.raises(KafkaError):
            producer.send(topic.name, key=b"user", value=value("lost"), partition=0).get(20)
        for partition in (1, 2):
            producer.send(topic.name, key=b"user", value=value("meanwhile"), partition=partition).get(10)
    own.stop()
    segment.rmdir()
    segment.write_bytes(whole)
    own.start()
    for partition in range(3):
        producer.send(topic.name, key=b"user", value=value("after"), partition=partition).get(10)
    producer.close(timeout=5)


def test_a_record_that_a_frozen_broker_does_not_acknowledge_fails_by_the_deadline_and_is_not_sent_later(
    own: BrokerProcess,
) -> None:
    """Moving slots relies on it: after the deadline nothing that was sent by the old slot map arrives any more."""
    topic = make_topic(own.address, partitions=1)
    producer = gateway_producer.connect_producer()
    producer.send(topic.name, key=b"user", value=value("before"), partition=0).get(10)
    os.kill(own.pid, signal.SIGSTOP)
    began = time.monotonic()
    first = producer.send(topic.name, key=b"user", value=value("on the wire"), partition=0)
    time.sleep(0.2)  # it is in flight, so the next one waits behind it
    behind = producer.send(topic.name, key=b"user", value=value("behind"), partition=0)
    for sent in (first, behind):
        with pytest.raises(KafkaError):
            sent.get(20)
    assert time.monotonic() - began < 20
    os.kill(own.pid, signal.SIGCONT)
    producer.send(topic.name, key=b"user", value=value("after"), partition=0).get(20)
    producer.close(timeout=5)
    assert value("behind") not in read_values(own.address, topic.name)


def read_values(address: str, topic: str) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", consumer_timeout_ms=3000)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    try:
        return [record.value for record in consumer]
    finally:
        consumer.close()
