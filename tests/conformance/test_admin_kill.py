"""A change that was acknowledged to an admin client survives a kill in the next instant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions

from seckill.stack.broker_process import BrokerProcess

PARTITION = TopicPartition("orders", 0)


def test_every_answered_change_survives_a_kill(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker().start()

    def then_kill(change: Callable[[KafkaAdminClient], object]) -> None:
        admin = KafkaAdminClient(bootstrap_servers=broker.address)
        try:
            change(admin)
            broker.kill()
        finally:
            admin.close()
        broker.start()

    def now(ask: Callable[[KafkaAdminClient], Any]) -> Any:
        with KafkaAdminClient(bootstrap_servers=broker.address) as admin:
            return ask(admin)

    def settings() -> Any:
        resource = ConfigResource(ConfigResourceType.TOPIC, "orders")
        return now(lambda admin: admin.describe_configs([resource])["topic"]["orders"])

    def start_of_log() -> int:
        with KafkaConsumer(bootstrap_servers=broker.address) as consumer:
            return int(consumer.beginning_offsets([PARTITION])[PARTITION])

    then_kill(lambda admin: admin.create_topics({"orders": {"num_partitions": 1, "replication_factor": 1}}))
    (first,) = now(lambda admin: admin.describe_topics(["orders"]))
    assert first["error_code"] == 0

    resource = ConfigResource(ConfigResourceType.TOPIC, "orders", configs={"retention.ms": "86400000"})
    then_kill(lambda admin: admin.alter_configs([resource]))
    assert settings()["retention.ms"]["value"] == "86400000"

    then_kill(lambda admin: admin.create_partitions({"orders": NewPartitions(3)}))
    (grown,) = now(lambda admin: admin.describe_topics(["orders"]))
    assert len(grown["partitions"]) == 3 and grown["topic_id"] == first["topic_id"]

    with KafkaProducer(bootstrap_servers=broker.address) as producer:
        for _ in range(10):
            producer.send("orders", b"value", partition=0)
        producer.flush()
    then_kill(lambda admin: admin.delete_records({PARTITION: 4}))
    assert start_of_log() == 4

    then_kill(lambda admin: admin.delete_topics(["orders"]))
    assert "orders" not in now(lambda admin: admin.list_topics())

    then_kill(lambda admin: admin.create_topics({"orders": {"num_partitions": 1, "replication_factor": 1}}))
    (again,) = now(lambda admin: admin.describe_topics(["orders"]))
    assert again["topic_id"] != first["topic_id"] and len(again["partitions"]) == 1
    assert "retention.ms" not in settings()
    assert start_of_log() == 0
