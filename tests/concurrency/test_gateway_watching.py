"""The gateway measures inventory's progress by the rows in Postgres, not by offsets in the broker."""

from __future__ import annotations

import pytest
from django.db import transaction
from kafka import KafkaAdminClient

from gateway import backlog_monitor
from gateway.backlog_monitor import BacklogMonitor
from seckill.messaging import kafka_cluster, offsets
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.topics import Topic
from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.messaging_cast import fill, make_topic


@pytest.fixture
def topic(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = make_topic(broker.address)
    monkeypatch.setattr(backlog_monitor, "REQUEST_TOPICS", (topic.name,))
    fill(broker.address, topic, range(10))
    return topic


def measure(broker: BrokerProcess) -> BacklogMonitor:
    watch = BacklogMonitor(runs_thread=False)
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    watch._cluster_id = str(admin.describe_cluster()["cluster_id"])
    watch._measure(admin)
    admin.close()
    watch._is_started = True
    return watch


def decide(broker: BrokerProcess, topic: Topic, partition: int, to: int) -> None:
    """Offsets in the database, with nothing committed to the broker."""
    known = kafka_cluster.describe_cluster(broker.address, [topic])
    claim = offsets.claim_partition(known.id, known.topic_ids[topic.name], topic.name, partition, "inventory", 0)
    with transaction.atomic():
        offsets.advance(claim, 0, to)


def test_a_decided_request_is_not_queued_even_if_its_offset_commit_was_lost(
    broker: BrokerProcess, topic: Topic
) -> None:
    assert measure(broker).undecided() == {topic.name: 10}
    decide(broker, topic, 0, 5)
    decide(broker, topic, 1, 4)
    watch = measure(broker)
    assert watch.undecided() == {topic.name: 1}
    assert not watch.is_queued(RecordPosition(topic.name, 0, 4))
    assert watch.is_queued(RecordPosition(topic.name, 1, 4))


def test_offsets_of_a_former_topic_with_the_same_name_are_ignored(broker: BrokerProcess, topic: Topic) -> None:
    known = kafka_cluster.describe_cluster(broker.address, [topic])
    offsets.claim_partition(known.id, "the one before", topic.name, 0, "inventory", 5)
    assert measure(broker).undecided() == {topic.name: 10}
