"""The Kafka cluster as the services need to know it: its identity, and the topics of ours, made if absent."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from seckill.topics import TOPICS, Topic, replication

log = logging.getLogger(__name__)

PATIENCE_S = 30.0


class Cluster(NamedTuple):
    id: str
    topic_ids: dict[str, str]


def describe(bootstrap_servers: str, topics: Iterable[Topic]) -> Cluster:
    """Wait until the cluster has these topics; `KafkaError` if it takes too long."""
    wanted = [topic.name for topic in topics]
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = {
                topic["name"]: str(topic["topic_id"])
                for topic in admin.describe_topics(wanted)
                if not topic["error_code"]
            }
            if len(found) == len(wanted):
                return Cluster(admin.describe_cluster()["cluster_id"], found)
            if time.monotonic() > deadline:
                raise KafkaError(f"topics are missing: {sorted(set(wanted) - set(found))}")
            time.sleep(0.2)
    finally:
        admin.close()


def count_partitions(bootstrap_servers: str, topic: Topic) -> int:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        [described] = admin.describe_topics([topic.name])
        return len(described["partitions"])
    finally:
        admin.close()


def create_topics(bootstrap_servers: str) -> list[str]:
    """Make every topic of the table that is absent; the names of the new ones. Those of an older version get the
    settings of this one."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    made = []
    try:
        factor, settings = replication(len(admin.describe_cluster()["brokers"]))
        for topic in TOPICS.values():
            for name, partitions in ((topic.name, topic.partitions), (topic.dead, 1)):
                new = NewTopic(name, partitions, factor, topic_configs={**topic.configs, **settings})
                try:
                    admin.create_topics([new])
                    made.append(name)
                except TopicAlreadyExistsError:
                    _set(admin, name, topic.configs)
    finally:
        admin.close()
    return made


def _set(admin: KafkaAdminClient, topic: str, configs: Mapping[str, str]) -> None:
    """What differs."""
    asked = ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys(configs))
    found = admin.describe_configs([asked], config_filter="all")["topic"][topic]
    differing = {name: value for name, value in configs.items() if str(found.get(name, {}).get("value")) != value}
    if differing:
        log.warning("topic settings changed", extra={"topic": topic, **differing})
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, differing)])
