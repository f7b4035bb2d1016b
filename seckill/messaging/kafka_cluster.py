"""The Kafka cluster as the services see it: its ids, and our topics, which are created if they are missing."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from seckill.messaging.topics import TOPICS, Topic, replication

log = logging.getLogger(__name__)

TOPICS_SECONDS_MAX = 30.0


class ClusterIds(NamedTuple):
    id: str
    topic_ids: dict[str, str]


def describe_cluster(bootstrap_servers: str, topics: Iterable[Topic]) -> ClusterIds:
    """Wait until the cluster has these topics. Raises `KafkaError` after `TOPICS_SECONDS_MAX`."""
    wanted = [topic.name for topic in topics]
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        deadline = time.monotonic() + TOPICS_SECONDS_MAX
        while True:
            found = {
                topic["name"]: str(topic["topic_id"])
                for topic in admin.describe_topics(wanted)
                if not topic["error_code"]
            }
            if len(found) == len(wanted):
                return ClusterIds(admin.describe_cluster()["cluster_id"], found)
            if time.monotonic() > deadline:
                raise KafkaError(
                    f"topics are missing, `seckill topics` creates them: {sorted(set(wanted) - set(found))}"
                )
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
    """Create the missing topics of the table and return their names. Existing topics get the table's settings."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    created = []
    try:
        factor, settings = replication(len(admin.describe_cluster()["brokers"]))
        for topic in TOPICS.values():
            for name, partitions in ((topic.name, topic.partitions), (topic.dead, 1)):
                new = NewTopic(name, partitions, factor, topic_configs={**topic.configs, **settings})
                try:
                    admin.create_topics([new])
                    created.append(name)
                except TopicAlreadyExistsError:
                    _update_settings(admin, name, topic.configs)
    finally:
        admin.close()
    return created


def _update_settings(admin: KafkaAdminClient, topic: str, configs: Mapping[str, str]) -> None:
    """Change only what differs."""
    wanted = ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys(configs))
    found = admin.describe_configs([wanted], config_filter="all")["topic"][topic]
    differing = {name: value for name, value in configs.items() if str(found.get(name, {}).get("value")) != value}
    if differing:
        log.warning("topic settings changed", extra={"topic": topic, **differing})
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, differing)])
