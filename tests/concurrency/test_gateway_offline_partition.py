"""The gateway's producer while one partition of the queue is offline, and afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings
from kafka.errors import KafkaError

from gateway import submissions
from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.messaging_cast import make_topic, value


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, {"auto.create.topics.enable": "false"}) as process:
        monkeypatch.setattr(
            settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, kafka_bootstrap_servers=process.address)
        )
        monkeypatch.setattr(submissions, "DELIVERY_SECONDS_MAX", 5.2)
        yield process


def test_an_offline_partition_stops_no_other_and_is_used_again_when_it_returns(own: BrokerProcess) -> None:
    topic = make_topic(own.address, partitions=3)
    producer = submissions._make_producer.__wrapped__()
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
