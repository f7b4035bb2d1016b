"""Topics that somebody else has made: each setting that does not fit is one line that says what to change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seckill.messaging.topic_check import FoundTopic, judge_topics
from seckill.messaging.topics import TOPICS, replication

WEEK_MS = str(7 * 24 * 3600 * 1000)


def fitting(brokers: int = 3) -> dict[str, FoundTopic]:
    factor, cluster = replication(brokers)
    return {
        name: FoundTopic(topic.partitions if name == topic.name else 1, factor, {**topic.configs, **cluster})
        for topic in TOPICS.values()
        for name in (topic.name, topic.dead)
    }


def changed(topic: str, **settings: str) -> dict[str, FoundTopic]:
    found = fitting()
    own = {**found[topic].settings, **{name.replace("_", "."): value for name, value in settings.items()}}
    return found | {topic: replace(found[topic], settings=own)}


@pytest.mark.parametrize("brokers", [1, 3, 9])
def test_topics_that_the_sale_makes_itself_fit(brokers: int) -> None:
    assert judge_topics(fitting(brokers), brokers) == []


def test_topics_that_do_not_exist_yet_are_not_judged() -> None:
    assert judge_topics({}, 3) == []


@pytest.mark.parametrize("partitions", [12, 13, 48])
def test_more_partitions_are_welcome_everywhere(partitions: int) -> None:
    found = {name: replace(topic, partitions=partitions) for name, topic in fitting().items()}
    assert judge_topics(found, 3) == []


@pytest.mark.parametrize(
    ("topic", "setting", "value", "line"),
    [
        ("order.events", "min_insync_replicas", "1", "min.insync.replicas=1: one disk may hold the only copy"),
        ("order.events", "min_insync_replicas", "3", "min.insync.replicas=3: no broker may be away"),
        ("order.events", "cleanup_policy", "compact,delete", "cleanup.policy=compact,delete: compaction removes"),
        ("order.events", "retention_ms", "60000", f"--add-config retention.ms={WEEK_MS}"),
        ("order.events.dead", "retention_ms", "60000", "order.events.dead has retention.ms=60000"),
        ("order.events", "retention_bytes", "1000000", "a large sale loses records that are not read yet"),
        ("order.events", "max_message_bytes", "100000", "large records would be rejected"),
        ("purchase.requests", "message_timestamp_type", "CreateTime", "=CreateTime: the report needs"),
    ],
)  # fmt: skip
def test_a_setting_that_does_not_fit_is_one_line(topic: str, setting: str, value: str, line: str) -> None:
    [found] = judge_topics(changed(topic, **{setting: value}), 3)
    assert found.startswith(f"{topic} has ") and line in found


@pytest.mark.parametrize(
    ("setting", "value"),
    [("retention_ms", "-1"), ("retention_ms", str(10 * int(WEEK_MS))), ("max_message_bytes", "5000000"),
     ("flush_messages", "9223372036854775807")],
)  # fmt: skip
def test_settings_that_are_other_but_good_enough_are_no_lines(setting: str, value: str) -> None:
    assert judge_topics(changed("order.events", **{setting: value}), 3) == []


def test_the_commands_name_the_cluster() -> None:
    [line] = judge_topics(changed("order.events", retention_ms="60000"), 3, "k:9093")
    assert "; kafka-configs --bootstrap-server k:9093 --command-config admin.properties --alter --topic order" in line


def test_with_one_replica_each_record_must_be_synced() -> None:
    found = fitting(1)
    topic = found["order.events"]
    found["order.events"] = replace(topic, settings={**topic.settings, "flush.messages": "9223372036854775807"})
    [line] = judge_topics(found, 1)
    assert "with one replica a power failure loses records" in line


def test_too_few_partitions_and_replicas_are_named_with_the_tool_that_adds_them() -> None:
    found = fitting()
    found["order.events"] = replace(found["order.events"], partitions=1, replicas=1)
    partitions, replicas = judge_topics(found, 3)
    assert "order.events has 1 partition, so" in partitions
    assert (
        "kafka-topics --bootstrap-server HOST:PORT --command-config admin.properties --alter --topic order.events"
        in partitions
    )
    assert "order.events has 1 replica:" in replicas and "kafka-reassign-partitions" in replicas


@pytest.mark.parametrize("diverted", [12, 6])
def test_the_topic_for_diverted_requests_needs_as_many_partitions_as_the_other(diverted: int) -> None:
    """One line: partitions are only added, so a second command with a smaller number would fail."""
    found = fitting()
    found["purchase.requests"] = replace(found["purchase.requests"], partitions=24)
    found["purchase.requests.diverted"] = replace(found["purchase.requests.diverted"], partitions=diverted)
    [line] = judge_topics(found, 3)
    assert "--alter --topic purchase.requests.diverted --partitions 24" in line
    assert "`seckill backlog divert` will refuse" in line


def test_settings_that_may_not_be_read_are_not_guessed() -> None:
    found = fitting()
    found["order.events"] = replace(found["order.events"], settings={})
    assert judge_topics(found, 3) == ["the settings of order.events cannot be checked: this user needs DescribeConfigs"]
