"""The Kafka cluster as the services see it: its ids, and our topics, which are created if they are missing."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)

from seckill.config.kafka_clients import client_options
from seckill.messaging.topics import TOPICS, Topic, replication

log = logging.getLogger(__name__)

TOPICS_SECONDS_MAX = 30.0
TOPICS_POLL_S = 0.2


class ClusterIds(NamedTuple):
    id: str
    topic_ids: dict[str, str]


def describe_cluster(bootstrap_servers: str, topics: Iterable[Topic]) -> ClusterIds:
    """Wait until the cluster has these topics. Raises `KafkaError` after `TOPICS_SECONDS_MAX`."""
    admin = KafkaAdminClient(**client_options(bootstrap_servers))
    try:
        found = _await_topics(admin, [topic.name for topic in topics])
        return ClusterIds(
            admin.describe_cluster()["cluster_id"], {name: str(each["topic_id"]) for name, each in found.items()}
        )
    finally:
        admin.close()


def count_partitions(bootstrap_servers: str, topic: Topic) -> int:
    """Waits for the topic, as `describe_cluster` does."""
    admin = KafkaAdminClient(**client_options(bootstrap_servers))
    try:
        return len(_await_topics(admin, [topic.name])[topic.name]["partitions"])
    finally:
        admin.close()


def _await_topics(admin: KafkaAdminClient, wanted: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Brokers learn of a new topic one after the other, and any of them may answer."""
    deadline = time.monotonic() + TOPICS_SECONDS_MAX
    while True:
        found = {each["name"]: each for each in admin.describe_topics(wanted) if not each["error_code"]}
        if len(found) == len(wanted):
            return found
        if time.monotonic() > deadline:
            missing = sorted(set(wanted) - set(found))
            raise KafkaError(f"topics are missing, `seckill topics` creates them: {missing}")
        time.sleep(TOPICS_POLL_S)


class CannotCreateTopics(KafkaError):  # type: ignore[misc]  # untyped there
    """This user may not create the missing topics; the text names them and what to do."""


def create_topics(bootstrap_servers: str, *, keep_settings: bool = False) -> list[str]:
    """Create the missing topics of the table and return their names. Existing topics get the table's settings, unless
    they belong to somebody else (`keep_settings`). Topics that exist are not touched, so no right to create is needed
    then. Raises `CannotCreateTopics`."""
    admin = KafkaAdminClient(**client_options(bootstrap_servers))
    try:
        wanted = new_topics(len(admin.describe_cluster()["brokers"]))
        known = {each["name"] for each in admin.describe_topics(list(wanted)) if not each["error_code"]}
        created = [name for name in wanted if name not in known and _create(admin, wanted[name])]
        if not keep_settings:
            for topic in TOPICS.values():
                for name in {topic.name, topic.dead} - set(created):
                    _update_settings(admin, name, topic.configs)
    finally:
        admin.close()
    return created


def new_topics(brokers: int) -> dict[str, NewTopic]:
    """All topics of the table as a cluster with this number of brokers needs them."""
    factor, settings = replication(brokers)
    return {
        name: NewTopic(name, partitions, factor, topic_configs={**topic.configs, **settings})
        for topic in TOPICS.values()
        for name, partitions in ((topic.name, topic.partitions), (topic.dead, 1))
    }


def _create(admin: KafkaAdminClient, topic: NewTopic) -> bool:
    """False if it was created elsewhere in the meantime."""
    try:
        admin.create_topics([topic])
    except TopicAlreadyExistsError:
        return False
    except (TopicAuthorizationFailedError, ClusterAuthorizationFailedError) as fault:
        raise CannotCreateTopics(
            f"the topic {topic.name} does not exist, or this user may not see it, and may not create it either;"
            f" `seckill kafka topics` and `seckill kafka acls` print the commands for an administrator"
        ) from fault
    return True


def _update_settings(admin: KafkaAdminClient, topic: str, configs: Mapping[str, str]) -> None:
    """Change only what differs."""
    wanted = ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys(configs))
    found = admin.describe_configs([wanted], config_filter="all")["topic"][topic]
    differing = {name: value for name, value in configs.items() if str(found.get(name, {}).get("value")) != value}
    if differing:
        log.warning("topic settings changed", extra={"topic": topic, **differing})
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, differing)])
