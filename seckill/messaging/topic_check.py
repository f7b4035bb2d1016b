"""Topics that somebody else has made: one line for each setting that does not fit the sale, and what to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from seckill.config.kafka_clients import client_options
from seckill.messaging.topics import TOPICS, Topic, replication

MESSAGE_BYTES_MIN = 1024 * 1024
"""The largest record is a dead letter of half a megabyte and its headers."""
ADMIN_FILE = "admin.properties"
"""In the printed commands: the login of an administrator."""
MISFIT = "topic setting: "
"""Begins each line of `seckill topics` about a setting, so that `seckill up` can pass it on."""
NAMES = [name for topic in TOPICS.values() for name in (topic.name, topic.dead)]
WATCHED = (
    "min.insync.replicas", "cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes",
    "message.timestamp.type", "flush.messages",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as the cluster describes it; `settings` is empty if this user may not read them."""

    partitions: int
    replicas: int
    settings: Mapping[str, str]


def find_misfits(bootstrap_servers: str) -> list[str]:
    """One line for each setting that does not fit. Raises `KafkaError` if the cluster does not answer."""
    admin = KafkaAdminClient(**client_options(bootstrap_servers))
    try:
        found = read_topics(admin)
        brokers = len(admin.describe_cluster()["brokers"])
    finally:
        admin.close()
    return judge_topics(found, brokers, bootstrap_servers)


def missing_topics(bootstrap_servers: str) -> list[str]:
    """The topics that do not exist, or that this user may not see."""
    admin = KafkaAdminClient(**client_options(bootstrap_servers))
    try:
        return sorted(each["name"] for each in admin.describe_topics(NAMES) if each["error_code"])
    finally:
        admin.close()


def read_topics(admin: Any) -> dict[str, FoundTopic]:
    """What exists of our topics. kafka-python returns no settings for a topic whose settings this user may not read."""
    described = {each["name"]: each["partitions"] for each in admin.describe_topics(NAMES) if not each["error_code"]}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, dict.fromkeys(WATCHED)) for name in described]
    configs = admin.describe_configs(resources, config_filter="all")["topic"] if resources else {}
    return {
        name: FoundTopic(
            len(partitions),
            min((len(each["replica_nodes"]) for each in partitions), default=0),
            {key: str(each["value"]) for key, each in configs[name].items()},
        )
        for name, partitions in described.items()
    }


def judge_topics(found: Mapping[str, FoundTopic], brokers: int, address: str = "HOST:PORT") -> list[str]:
    judge = _Judge(found, brokers, address)
    lines = [line for topic in TOPICS.values() for line in judge.topic(topic)]
    hidden = [name for name, topic in found.items() if not topic.settings]
    if hidden:
        lines.append(f"the settings of {', '.join(hidden)} cannot be checked: this user needs DescribeConfigs")
    return lines


@dataclass(frozen=True, slots=True)
class _Judge:
    """`address` goes into the commands, which are those of Kafka's own tools."""

    found: Mapping[str, FoundTopic]
    brokers: int
    address: str

    def topic(self, topic: Topic) -> Iterator[str]:
        here = self.found.get(topic.name)
        if here is not None:
            yield from self._partitions(topic, here)
            yield from self._settings(topic.name, here, topic.configs)
        dead = self.found.get(topic.dead)
        if dead is not None:
            kept = {name: value for name, value in topic.configs.items() if name == "retention.ms"}
            yield from self._settings(topic.dead, dead, kept)

    def _partitions(self, topic: Topic, here: FoundTopic) -> Iterator[str]:
        if here.partitions < topic.partitions and not self._follows_larger(topic, here):
            yield (
                f"{topic.name} has {_count(here.partitions, 'partition')}, so at most as many consumers of a group work"
                f" (the sale makes {topic.partitions}); before the first sale:"
                f" {self._add_partitions(topic.name, topic.partitions)}"
            )
        overflow = self.found.get(topic.overflow.name) if topic.overflow else None
        if topic.overflow and overflow and overflow.partitions < here.partitions:
            yield (
                f"{topic.overflow.name} has {_count(overflow.partitions, 'partition')} and {topic.name}"
                f" {here.partitions}, so `seckill backlog divert` will refuse:"
                f" {self._add_partitions(topic.overflow.name, here.partitions)}"
            )

    def _follows_larger(self, topic: Topic, here: FoundTopic) -> bool:
        """Whether another topic, of which this is the overflow, has more partitions: its line names their number."""
        owners = [self.found.get(each.name) for each in TOPICS.values() if each.overflow == topic]
        return any(owner is not None and owner.partitions > here.partitions for owner in owners)

    def _settings(self, name: str, here: FoundTopic, wanted: Mapping[str, str]) -> Iterator[str]:
        replicas, _ = replication(self.brokers)
        if here.replicas < replicas:
            yield (
                f"{name} has {_count(here.replicas, 'replica')}: the loss of a broker stops it or loses records;"
                f" give it {replicas} with kafka-reassign-partitions"
            )
        if here.settings:
            yield from self._in_sync(name, here)
            yield from self._retention(name, here, wanted)
            yield from self._records(name, here, wanted)

    def _in_sync(self, name: str, here: FoundTopic) -> Iterator[str]:
        in_sync = int(here.settings.get("min.insync.replicas", 1))
        if here.replicas < 2:
            return
        if in_sync == 1 and self.brokers > 2:
            yield self._misfit(name, here, "min.insync.replicas", "2", "one disk may hold the only copy of a record")
        if in_sync >= here.replicas:
            yield self._misfit(name, here, "min.insync.replicas", str(here.replicas - 1), "no broker may be away")

    def _retention(self, name: str, here: FoundTopic, wanted: Mapping[str, str]) -> Iterator[str]:
        settings = here.settings
        kept, needed = int(settings.get("retention.ms", -1)), int(wanted.get("retention.ms", 0))
        if 0 <= kept < needed:
            why = "a consumer that is away for longer loses records"
            yield self._misfit(name, here, "retention.ms", str(needed), why)
        if int(settings.get("retention.bytes", -1)) >= 0:
            yield self._misfit(name, here, "retention.bytes", "-1", "a large sale loses records that are not read yet")
        if settings.get("cleanup.policy", "delete") != "delete":
            yield self._misfit(name, here, "cleanup.policy", "delete", "compaction removes older records of a user")

    def _records(self, name: str, here: FoundTopic, wanted: Mapping[str, str]) -> Iterator[str]:
        if int(here.settings.get("max.message.bytes", MESSAGE_BYTES_MIN)) < MESSAGE_BYTES_MIN:
            yield self._misfit(
                name, here, "max.message.bytes", str(MESSAGE_BYTES_MIN), "large records would be rejected"
            )
        stamps = wanted.get("message.timestamp.type")
        if stamps and here.settings.get("message.timestamp.type") != stamps:
            why = "the report needs the broker's time of a request"
            yield self._misfit(name, here, "message.timestamp.type", stamps, why)
        flush = wanted.get("flush.messages")
        if flush and here.replicas == 1 and here.settings.get("flush.messages") != flush:
            yield self._misfit(name, here, "flush.messages", flush, "with one replica a power failure loses records")

    def _misfit(self, name: str, here: FoundTopic, setting: str, wanted: str, why: str) -> str:
        change = f"kafka-configs {self._options} --alter --topic {name} --add-config {setting}={wanted}"
        return f"{name} has {setting}={here.settings.get(setting)}: {why}; {change}"

    def _add_partitions(self, topic: str, partitions: int) -> str:
        return f"kafka-topics {self._options} --alter --topic {topic} --partitions {partitions}"

    @property
    def _options(self) -> str:
        return f"--bootstrap-server {self.address} --command-config {ADMIN_FILE}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
