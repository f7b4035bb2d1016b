"""Shell: what the tests ask a cluster about itself, through confluent-kafka."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient

from seckill.stack.broker_cluster import BrokerCluster, ClusterNode
from seckill.stack.broker_network import NODES
from seckill.stack.child_processes import wait_until
from tests.broker_factory import kafka_names

PATIENCE_S = 60.0


def addresses(cluster: BrokerCluster, ask: Collection[int] = NODES) -> str:
    """Of these brokers; a client that knows one of them hears of the others from it."""
    return ",".join(cluster.nodes[number].address for number in ask)


def admin_of(cluster: BrokerCluster, ask: Collection[int] = NODES) -> AdminClient:
    return AdminClient({"bootstrap.servers": addresses(cluster, ask), "log_level": 0})


def make_topic(
    cluster: BrokerCluster, topic: str, partitions: int = 3, ask: Collection[int] = NODES, **settings: str
) -> None:
    wanted = NewTopic(topic, partitions, 3, config=kafka_names(settings))
    admin = admin_of(cluster, ask)
    admin.create_topics([wanted])[topic].result(PATIENCE_S)


def leaders(cluster: BrokerCluster, topic: str, ask: Collection[int] = NODES) -> dict[int, int]:
    """The leader of each partition, −1 if it has none, as one of these brokers knows it."""
    found = admin_of(cluster, ask).list_topics(topic, timeout=10).topics[topic].partitions
    return {index: partition.leader for index, partition in found.items()}


def in_sync(cluster: BrokerCluster, topic: str, ask: Collection[int] = NODES) -> dict[int, set[int]]:
    found = admin_of(cluster, ask).list_topics(topic, timeout=10).topics[topic].partitions
    return {index: set(partition.isrs) for index, partition in found.items()}


def live_brokers(cluster: BrokerCluster) -> set[int]:
    return set(admin_of(cluster).list_topics(timeout=10).brokers)


def controller(cluster: BrokerCluster) -> int:
    """The leader of the metadata quorum."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.address.split(","))
    try:
        [topic] = admin.describe_metadata_quorum()["topics"]
        return int(topic["partitions"][0]["leader_id"])
    finally:
        admin.close()


def until_in_sync(cluster: BrokerCluster, topic: str, members: set[int]) -> None:
    def holds() -> bool:
        try:
            return all(isr == members for isr in in_sync(cluster, topic).values())
        except KafkaException:
            return False

    wait_until(holds, f"the in-sync replicas of {topic} to be {sorted(members)}", PATIENCE_S)


def until_led(cluster: BrokerCluster, topic: str, without: ClusterNode) -> None:
    def holds() -> bool:
        try:
            return not {-1, without.number} & set(leaders(cluster, topic).values())
        except KafkaException:
            return False

    wait_until(holds, f"{topic} to be led without node {without.number}", PATIENCE_S)


def until_adopted(cluster: BrokerCluster, node: ClusterNode) -> None:
    """Let a node vote that came back with another folder. It has to catch up first."""
    command = [sys.executable, "-m", "mqcore", "quorum", "adopt", "--bootstrap-server", cluster.nodes[1].address]

    def adopted() -> bool:
        done = subprocess.run([*command, "--node-id", str(node.number)], capture_output=True, text=True, check=False)
        return done.returncode == 0

    wait_until(adopted, f"node {node.number} to be adopted", PATIENCE_S)
    wait_until(lambda: node.number in voters(cluster), f"node {node.number} to be a voter again", PATIENCE_S)


def voters(cluster: BrokerCluster) -> set[int]:
    admin = KafkaAdminClient(bootstrap_servers=cluster.address.split(","))
    try:
        [topic] = admin.describe_metadata_quorum()["topics"]
        return {each["replica_id"] for each in topic["partitions"][0]["current_voters"]}
    finally:
        admin.close()


def produce(
    cluster: BrokerCluster,
    topic: str,
    values: list[bytes],
    partition: int = 0,
    give_up_ms: int = 300_000,
    ask: Collection[int] = NODES,
) -> list[int]:
    """Write with acks=all and return the offsets. The producer repeats what fails for `give_up_ms`."""
    offsets: list[int] = []
    faults: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": addresses(cluster, ask),
            "enable.idempotence": True,
            "delivery.timeout.ms": give_up_ms,
            "log_level": 0,
        }
    )
    for value in values:
        producer.produce(
            topic,
            value,
            partition=partition,
            on_delivery=lambda error, message: faults.append(error) if error else offsets.append(message.offset() or 0),
        )
    assert producer.flush(PATIENCE_S) == 0 and not faults, faults
    return offsets


def read_all(cluster: BrokerCluster, topic: str, partition: int = 0) -> list[bytes]:
    """The values of one partition from its start to its present end."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.address, "group.id": f"{topic}-reader", "enable.auto.commit": False,
         "log_level": 0}
    )  # fmt: skip
    place = TopicPartition(topic, partition, 0)
    _, end = consumer.get_watermark_offsets(place, timeout=PATIENCE_S)
    consumer.assign([place])
    values: list[bytes] = []

    def read() -> bool:
        for message in consumer.consume(500, timeout=0.2):
            if message.error() is None:
                values.append(message.value() or b"")
        return len(values) >= end

    wait_until(read, f"{end} records of {topic}", PATIENCE_S)
    consumer.close()
    return values
