"""CreateTopics, CreatePartitions, DeleteTopics: from the request to the folders on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from mqcore.controller.setting_layers import ConfigSource
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.running_broker import RunningBroker

CREATE, DELETE, GROW = 19, 20, 37


def wanted(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


def test_a_topic_can_be_written_to_once_its_creation_is_answered(broker: RunningBroker) -> None:
    (made,) = broker.request(CREATE, 7, topics=[wanted("orders", 3)]).topics
    assert (made.name, made.error_code, made.error_message) == ("orders", ErrorCode.NONE, None)
    assert (made.num_partitions, made.replication_factor) == (3, 1)
    assert made.topic_id == broker.services.image.topics["orders"].id
    for index in range(3):
        assert broker.services.partitions.get("orders", index) is not None
        assert (broker.data / f"orders-{index}").is_dir()


@pytest.mark.parametrize("version", [2, 4])
def test_older_versions_return_only_the_error(broker: RunningBroker, version: int) -> None:
    made, refused = broker.request(CREATE, version, topics=[wanted("orders"), wanted("bad name")]).topics
    assert made.error_code == ErrorCode.NONE and made.topic_id is None
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION and refused.error_message


@pytest.mark.parametrize("version", [5, 7])
def test_newer_versions_return_all_settings_with_their_sources(tmp_path: Path, version: int) -> None:
    with RunningBroker(tmp_path, "log.retention.ms=777") as broker:
        configs = [{"name": "flush.ms", "value": "5"}]
        (made,) = broker.request(CREATE, version, topics=[wanted("orders", configs=configs)]).topics
    told = {config.name: (config.value, config.config_source) for config in made.configs}
    assert told["flush.ms"] == ("5", ConfigSource.DYNAMIC_TOPIC)
    assert told["retention.ms"] == ("777", ConfigSource.STATIC_BROKER)
    assert told["segment.bytes"] == ("1073741824", ConfigSource.DEFAULT)


def test_a_refused_topic_has_an_empty_array_of_settings(broker: RunningBroker) -> None:
    """Java's client iterates over it without a null check."""
    (refused,) = broker.request(CREATE, 7, topics=[wanted("bad name")]).topics
    assert refused.configs == [] and refused.topic_id is None and refused.num_partitions == -1


def test_validating_a_topic_returns_what_would_be_created(broker: RunningBroker) -> None:
    configs = [{"name": "flush.ms", "value": "5"}]
    topics = [wanted("orders", -1, -1, configs=configs), wanted("stock", 1, 3)]
    good, bad = broker.request(CREATE, 7, topics=topics, validate_only=True).topics
    assert good.num_partitions == 1 and ("flush.ms", "5") in {(each.name, each.value) for each in good.configs}
    assert bad.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert not broker.services.image.topics and not (broker.data / "orders-0").exists()


def test_a_client_may_assign_partitions_to_brokers(broker: RunningBroker) -> None:
    assignments = [{"partition_index": index, "broker_ids": [1]} for index in (1, 0)]
    (made,) = broker.request(CREATE, 7, topics=[wanted("orders", -1, -1, assignments=assignments)]).topics
    assert (made.error_code, made.num_partitions) == (ErrorCode.NONE, 2)


def test_an_error_message_that_quotes_the_client_is_truncated(broker: RunningBroker) -> None:
    configs = [{"name": "x" * 32767, "value": "1"}]
    (refused,) = broker.request(CREATE, 2, topics=[wanted("orders", configs=configs)]).topics
    assert refused.error_code == ErrorCode.INVALID_CONFIG and len(refused.error_message) == 1000


def test_the_settings_of_a_new_topic_are_those_of_its_log(broker: RunningBroker) -> None:
    broker.create_topic("orders", configs={"cleanup.policy": "compact", "segment.bytes": "4096"})
    config = broker.log_settings("orders")
    assert (config.compact, config.delete, config.segment_bytes) == (True, False, 4096)


# Growing


@pytest.mark.parametrize("version", [0, 3])
def test_new_partitions_of_a_topic_can_be_written_to(broker: RunningBroker, version: int) -> None:
    broker.create_topic("orders")
    topics = [{"name": "orders", "count": 3, "assignments": None}, {"name": "nope", "count": 3, "assignments": None}]
    grown, unknown = broker.request(GROW, version, topics=topics).results
    assert (grown.name, grown.error_code, grown.error_message) == ("orders", ErrorCode.NONE, None)
    assert (unknown.name, unknown.error_code) == ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert broker.services.partitions.get("orders", 2) is not None


def test_validating_new_partitions_creates_none(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    topics = [{"name": "orders", "count": 2, "assignments": [{"broker_ids": [1]}]}]
    (checked,) = broker.request(GROW, 3, topics=topics, validate_only=True).results
    assert checked.error_code == ErrorCode.NONE
    assert broker.services.partitions.get("orders", 1) is None
    (wrong,) = broker.request(GROW, 3, topics=[{**topics[0], "assignments": [{"broker_ids": [2]}]}]).results
    assert wrong.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


# Deleting


@pytest.mark.parametrize("version", [1, 5])
def test_topics_are_deleted_by_name(broker: RunningBroker, version: int) -> None:
    broker.create_topic("orders")
    deleted, unknown = broker.request(DELETE, version, topic_names=["orders", "nope"]).responses
    assert (deleted.name, deleted.error_code) == ("orders", ErrorCode.NONE)
    assert (unknown.name, unknown.error_code) == ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert (unknown.error_message is not None) is (version >= 5)
    assert broker.services.partitions.get("orders", 0) is None and not (broker.data / "orders-0").exists()


def test_topics_are_deleted_by_id_and_the_response_has_their_names(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    topic_id = broker.services.image.topics["orders"].id
    unknown_id = uuid4()
    topics = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": unknown_id}, {"name": None}]
    deleted, unknown, neither = broker.request(DELETE, 6, topics=topics).responses
    assert (deleted.name, deleted.topic_id, deleted.error_code) == ("orders", topic_id, ErrorCode.NONE)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (None, unknown_id, ErrorCode.UNKNOWN_TOPIC_ID)
    assert neither.error_code == ErrorCode.INVALID_REQUEST


def test_a_recreated_topic_has_a_new_id_and_is_empty(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    broker.append_records("orders", 5)
    first = broker.services.image.topics["orders"].id
    broker.request(21, 2, topics=[{"name": "orders", "partitions": [{"partition_index": 0, "offset": 3}]}])
    broker.request(DELETE, 6, topics=[{"name": "orders", "topic_id": None}])
    broker.create_topic("orders")
    partition = broker.services.partitions.get("orders", 0)
    assert partition is not None and broker.services.image.topics["orders"].id != first
    assert (partition.log_start_offset, partition.high_watermark) == (0, 0)


def test_metadata_changes_survive_a_restart(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker:
        broker.create_topic("orders", 2, {"flush.ms": "5"})
        broker.create_topic("gone")
        broker.request(GROW, 3, topics=[{"name": "orders", "count": 3, "assignments": None}])
        broker.request(DELETE, 6, topics=[{"name": "gone", "topic_id": None}])
        before: UUID = broker.services.image.topics["orders"].id
    with RunningBroker(tmp_path) as broker:
        (topic,) = broker.services.image.topics.values()
        assert (topic.name, topic.id, dict(topic.configs)) == ("orders", before, {"flush.ms": "5"})
        assert [partition.leader_epoch for partition in topic.partitions] == [1, 1, 1]
        assert broker.log_settings("orders").flush_ms == 5
