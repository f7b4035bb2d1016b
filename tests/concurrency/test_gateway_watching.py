"""How far inventory has come, as a gateway measures it: by the rows, whatever the broker knows of the group."""

from __future__ import annotations

import pytest
from django.db import transaction
from kafka import KafkaAdminClient

from gateway import watching
from gateway.places import Place
from gateway.watching import Watch
from seckill.stack.broker import BrokerProcess
from seckill.streams import cluster, offsets
from seckill.topics import Topic
from tests.concurrency.streams_cast import fill, make_topic


@pytest.fixture
def topic(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = make_topic(broker.address)
    monkeypatch.setattr(watching, "QUEUES", (topic.name,))
    fill(broker.address, topic, range(10))
    return topic


def look(broker: BrokerProcess) -> Watch:
    watch = Watch()
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    watch._cluster_id = str(admin.describe_cluster()["cluster_id"])
    watch._look(admin)
    admin.close()
    watch._is_started = True
    return watch


def decide(broker: BrokerProcess, topic: Topic, partition: int, to: int) -> None:
    """In the database, and nothing of it is committed to the broker."""
    known = cluster.describe(broker.address, [topic])
    claim = offsets.claim(known.id, known.topic_ids[topic.name], topic.name, partition, "inventory", 0)
    with transaction.atomic():
        offsets.advance(claim, 0, to)


def test_what_is_decided_is_not_in_the_queue_although_its_commit_to_the_broker_was_lost(
    broker: BrokerProcess, topic: Topic
) -> None:
    assert look(broker).undecided() == {topic.name: 10}
    decide(broker, topic, 0, 5)
    decide(broker, topic, 1, 4)
    watch = look(broker)
    assert watch.undecided() == {topic.name: 1}
    assert not watch.is_queued(Place(topic.name, 0, 4))
    assert watch.is_queued(Place(topic.name, 1, 4))


def test_rows_of_another_topic_of_the_same_name_say_nothing(broker: BrokerProcess, topic: Topic) -> None:
    known = cluster.describe(broker.address, [topic])
    offsets.claim(known.id, "the one before", topic.name, 0, "inventory", 5)
    assert look(broker).undecided() == {topic.name: 10}
