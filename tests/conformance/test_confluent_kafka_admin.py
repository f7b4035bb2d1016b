"""confluent-kafka (librdkafka): administrators."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from seckill.stack.broker_process import BrokerProcess
from tests.conformance.confluent_clients import PATIENCE_S, consumer, create, produce, read


def test_an_administrator_creates_changes_and_deletes_a_topic(broker: BrokerProcess, topic: str) -> None:
    admin = create(broker, topic, partitions=2, retention_ms="60000")
    description = admin.describe_topics(_topics(topic))[topic].result(PATIENCE_S)
    assert len(description.partitions) == 2
    assert str(description.topic_id) not in ("", "AAAAAAAAAAAAAAAAAAAAAA")

    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(PATIENCE_S)
    assert len(admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions) == 5
    with pytest.raises(KafkaException) as shrunk:
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
    assert shrunk.value.args[0].code() == KafkaError.INVALID_PARTITIONS

    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    assert admin.describe_configs([resource])[resource].result(PATIENCE_S)["retention.ms"].value == "60000"
    resource.add_incremental_config(ConfigEntry("retention.ms", "70000", incremental_operation=AlterConfigOpType.SET))
    resource.add_incremental_config(
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    )
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    now = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert now["retention.ms"].value == "70000"
    assert set(now["cleanup.policy"].value.split(",")) == {"compact", "delete"}
    assert now["segment.bytes"].is_default

    with pytest.raises(KafkaException) as twice:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
    assert twice.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    assert topic not in admin.list_topics(timeout=PATIENCE_S).topics


def test_a_recreated_topic_is_empty(broker: BrokerProcess, topic: str) -> None:
    admin = create(broker, topic)
    produce(broker, topic, [{"value": b"old"}] * 3)
    old = admin.describe_topics(_topics(topic))[topic].result(PATIENCE_S).topic_id
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    admin = create(broker, topic)
    assert str(admin.describe_topics(_topics(topic))[topic].result(PATIENCE_S).topic_id) != str(old)
    assert produce(broker, topic, [{"value": b"new"}])[0].offset() == 0


def test_deleted_records_are_not_delivered(broker: BrokerProcess, topic: str, group: str) -> None:
    admin = create(broker, topic)
    produce(broker, topic, [{"value": b"%d" % i} for i in range(20)], batch_num_messages=1)
    place = TopicPartition(topic, 0, 12)
    assert admin.delete_records([place])[place].result(PATIENCE_S).low_watermark == 12
    with consumer(broker, group) as source:
        source.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert [m.offset() for m in read(source, 8)] == list(range(12, 20))


def test_groups_are_listed_described_reset_and_deleted(broker: BrokerProcess, topic: str, group: str) -> None:
    admin = create(broker, topic)
    produce(broker, topic, [{"value": b"x"}] * 10)
    with consumer(broker, group) as source:
        source.subscribe([topic])
        read(source, 10)
        source.commit(asynchronous=False)
        described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
        assert described.state.name == "STABLE"
        assert [m.assignment.topic_partitions for m in described.members] == [[TopicPartition(topic, 0)]]
        with pytest.raises(KafkaException) as busy:
            admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
        assert busy.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    assert group in {listed.group_id for listed in admin.list_consumer_groups().result(PATIENCE_S).valid}
    new = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 4)])
    admin.alter_consumer_group_offsets([new])[group].result(PATIENCE_S)
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    told = admin.list_consumer_group_offsets([asked])[group].result(PATIENCE_S)
    assert [p.offset for p in told.topic_partitions] == [4]
    with consumer(broker, group) as source:
        source.subscribe([topic])
        assert [m.offset() for m in read(source, 6)] == list(range(4, 10))
    admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    assert group not in {listed.group_id for listed in admin.list_consumer_groups().result(PATIENCE_S).valid}


def test_the_metadata_of_a_commit_is_returned(broker: BrokerProcess, topic: str, group: str) -> None:
    create(broker, topic)
    with consumer(broker, group) as source:
        source.assign([TopicPartition(topic, 0)])
        source.commit(offsets=[TopicPartition(topic, 0, 3, "a note — ü")], asynchronous=False)
        (found,) = source.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
    assert (found.offset, found.metadata) == (3, "a note — ü")


def _topics(*names: str) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection(list(names))
