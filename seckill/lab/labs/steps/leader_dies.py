"""Lab 13. The leader of a partition dies while its followers are behind. Broken: acks=1. Fixed: acks=all.

Three brokers; the followers are frozen (SIGSTOP) while the producer sends, so the leader alone has the records.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError

from seckill.config.kafka_clients import client_options
from seckill.lab.labs.child import Step
from seckill.lab.labs.lab import Bar, Chart, Observation, Variant
from seckill.lab.labs.steps import log_of_numbers as log
from seckill.stack.broker_cluster import BrokerCluster

TOPIC = "lab.leader"
RECORDS = 40
FROZEN_SECONDS = 1.0
ACKS: dict[Variant, dict[str, Any]] = {
    Variant.BROKEN: {"acks": 1, "enable_idempotence": False},
    Variant.FIXED: {"acks": "all", "enable_idempotence": True},
}


def run(step: Step, variant: Variant) -> Observation:
    with BrokerCluster(step.folder / "brokers") as cluster:
        leader = _create_topic(cluster)
        followers = [node for number, node in cluster.nodes.items() if number != leader]
        producer = KafkaProducer(
            **client_options(cluster.address), linger_ms=0, delivery_timeout_ms=60_000, request_timeout_ms=5_000,
            max_block_ms=30_000, **ACKS[variant],
        )  # fmt: skip
        try:
            producer.send(TOPIC, value=log.value(0)).get(30)
            for node in followers:
                os.kill(node.pid, signal.SIGSTOP)
            step.tell(f"broker {leader} leads; the two followers are frozen; the producer sends {RECORDS} records")
            sent = {number: _send(producer, number, variant) for number in range(1, RECORDS + 1)}
            before_death = sum(future.is_done and future.succeeded() for future in sent.values())
            step.tell(f"{before_death} are acknowledged; kill -9 of broker {leader}; the followers go on")
            cluster.nodes[leader].kill()
            for node in followers:
                os.kill(node.pid, signal.SIGCONT)
            acknowledged = {0, *(number for number, future in sent.items() if _is_acknowledged(future))}
            found = set(log.read_all(",".join(node.address for node in followers), TOPIC))
        finally:
            producer.close(timeout=10)
    lost = len(acknowledged - found)
    bars = (Bar("acknowledged", len(acknowledged)), Bar("in the new leader's log", len(found)), Bar("lost", lost, True))
    return Observation(
        lost,
        {"records sent": RECORDS + 1, "acknowledged before the leader died": before_death + 1,
         "acknowledged in the end": len(acknowledged), "in the new leader's log": len(found)},
        Chart(y="records", bars=bars),
    )  # fmt: skip


def _create_topic(cluster: BrokerCluster) -> int:
    """The leader of its only partition."""
    admin = KafkaAdminClient(**client_options(cluster.address))
    try:
        admin.create_topics([NewTopic(TOPIC, 1, 3)])
        [described] = admin.describe_topics([TOPIC])
        return int(described["partitions"][0]["leader_id"])
    finally:
        admin.close()


def _send(producer: KafkaProducer, number: int, variant: Variant) -> Any:
    """One request for each record. With acks=1 its acknowledgement comes; with acks=all it cannot come yet."""
    future = producer.send(TOPIC, value=log.value(number))
    if variant is Variant.BROKEN or number == 1:
        try:
            future.get(FROZEN_SECONDS)
        except KafkaError:
            pass  # not acknowledged yet; the producer goes on trying
    return future


def _is_acknowledged(future: Any) -> bool:
    try:
        future.get(60)
    except KafkaError:
        return False
    return True
