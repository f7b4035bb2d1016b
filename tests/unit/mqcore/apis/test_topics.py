"""CreateTopics, CreatePartitions, DeleteTopics: from the request to the folders on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from mqcore.controller.settings import ConfigSource
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.stack import Stack

CREATE, DELETE, GROW = 19, 20, 37


def wanted(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


def test_a_topic_can_be_written_to_when_its_creation_is_answered(stack: Stack) -> None:
    (made,) = stack.ask(CREATE, 7, topics=[wanted("orders", 3)]).topics
    assert (made.name, made.error_code, made.error_message) == ("orders", ErrorCode.NONE, None)
    assert (made.num_partitions, made.replication_factor) == (3, 1)
    assert made.topic_id == stack.services.image.topics["orders"].id
    for index in range(3):
        assert stack.services.partitions.get("orders", index) is not None
        assert (stack.data / f"orders-{index}").is_dir()


@pytest.mark.parametrize("version", [2, 4])
def test_older_versions_tell_no_more_than_the_error(stack: Stack, version: int) -> None:
    made, refused = stack.ask(CREATE, version, topics=[wanted("orders"), wanted("bad name")]).topics
    assert made.error_code == ErrorCode.NONE and made.topic_id is None
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION and refused.error_message


@pytest.mark.parametrize("version", [5, 7])
def test_newer_versions_tell_all_settings_and_whose_they_are(tmp_path: Path, version: int) -> None:
    with Stack(tmp_path, "log.retention.ms=777") as stack:
        configs = [{"name": "flush.ms", "value": "5"}]
        (made,) = stack.ask(CREATE, version, topics=[wanted("orders", configs=configs)]).topics
    told = {config.name: (config.value, config.config_source) for config in made.configs}
    assert told["flush.ms"] == ("5", ConfigSource.DYNAMIC_TOPIC)
    assert told["retention.ms"] == ("777", ConfigSource.STATIC_BROKER)
    assert told["segment.bytes"] == ("1073741824", ConfigSource.DEFAULT)


def test_a_refused_topic_has_an_array_of_settings_all_the_same(stack: Stack) -> None:
    """Java iterates over it without looking."""
    (refused,) = stack.ask(CREATE, 7, topics=[wanted("bad name")]).topics
    assert refused.configs == [] and refused.topic_id is None and refused.num_partitions == -1


def test_a_topic_that_is_only_checked_tells_what_it_would_be(stack: Stack) -> None:
    configs = [{"name": "flush.ms", "value": "5"}]
    topics = [wanted("orders", -1, -1, configs=configs), wanted("stock", 1, 3)]
    good, bad = stack.ask(CREATE, 7, topics=topics, validate_only=True).topics
    assert good.num_partitions == 1 and ("flush.ms", "5") in {(each.name, each.value) for each in good.configs}
    assert bad.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert not stack.services.image.topics and not (stack.data / "orders-0").exists()


def test_a_client_places_partitions_by_itself(stack: Stack) -> None:
    assignments = [{"partition_index": index, "broker_ids": [1]} for index in (1, 0)]
    (made,) = stack.ask(CREATE, 7, topics=[wanted("orders", -1, -1, assignments=assignments)]).topics
    assert (made.error_code, made.num_partitions) == (ErrorCode.NONE, 2)


def test_a_message_that_quotes_a_client_is_cut_to_what_old_versions_can_say(stack: Stack) -> None:
    configs = [{"name": "x" * 32767, "value": "1"}]
    (refused,) = stack.ask(CREATE, 2, topics=[wanted("orders", configs=configs)]).topics
    assert refused.error_code == ErrorCode.INVALID_CONFIG and len(refused.error_message) == 1000


def test_the_settings_of_a_new_topic_are_those_of_its_log(stack: Stack) -> None:
    stack.create("orders", configs={"cleanup.policy": "compact", "segment.bytes": "4096"})
    config = stack.settings_of("orders")
    assert (config.compact, config.delete, config.segment_bytes) == (True, False, 4096)


# Growing


@pytest.mark.parametrize("version", [0, 3])
def test_a_topic_grows_and_its_new_partitions_are_open(stack: Stack, version: int) -> None:
    stack.create("orders")
    topics = [{"name": "orders", "count": 3, "assignments": None}, {"name": "nope", "count": 3, "assignments": None}]
    grown, unknown = stack.ask(GROW, version, topics=topics).results
    assert (grown.name, grown.error_code, grown.error_message) == ("orders", ErrorCode.NONE, None)
    assert (unknown.name, unknown.error_code) == ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert stack.services.partitions.get("orders", 2) is not None


def test_growth_that_is_only_checked_does_not_happen(stack: Stack) -> None:
    stack.create("orders")
    topics = [{"name": "orders", "count": 2, "assignments": [{"broker_ids": [1]}]}]
    (checked,) = stack.ask(GROW, 3, topics=topics, validate_only=True).results
    assert checked.error_code == ErrorCode.NONE
    assert stack.services.partitions.get("orders", 1) is None
    (wrong,) = stack.ask(GROW, 3, topics=[{**topics[0], "assignments": [{"broker_ids": [2]}]}]).results
    assert wrong.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


# Deleting


@pytest.mark.parametrize("version", [1, 5])
def test_topics_are_deleted_by_name(stack: Stack, version: int) -> None:
    stack.create("orders")
    deleted, unknown = stack.ask(DELETE, version, topic_names=["orders", "nope"]).responses
    assert (deleted.name, deleted.error_code) == ("orders", ErrorCode.NONE)
    assert (unknown.name, unknown.error_code) == ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert (unknown.error_message is not None) is (version >= 5)
    assert stack.services.partitions.get("orders", 0) is None and not (stack.data / "orders-0").exists()


def test_topics_are_deleted_by_id_and_called_by_their_names(stack: Stack) -> None:
    stack.create("orders")
    topic_id = stack.services.image.topics["orders"].id
    unknown_id = uuid4()
    topics = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": unknown_id}, {"name": None}]
    deleted, unknown, neither = stack.ask(DELETE, 6, topics=topics).responses
    assert (deleted.name, deleted.topic_id, deleted.error_code) == ("orders", topic_id, ErrorCode.NONE)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (None, unknown_id, ErrorCode.UNKNOWN_TOPIC_ID)
    assert neither.error_code == ErrorCode.INVALID_REQUEST


def test_a_topic_made_again_is_another_one_and_empty(stack: Stack) -> None:
    stack.create("orders")
    stack.write("orders", 5)
    first = stack.services.image.topics["orders"].id
    stack.ask(21, 2, topics=[{"name": "orders", "partitions": [{"partition_index": 0, "offset": 3}]}])
    stack.ask(DELETE, 6, topics=[{"name": "orders", "topic_id": None}])
    stack.create("orders")
    partition = stack.services.partitions.get("orders", 0)
    assert partition is not None and stack.services.image.topics["orders"].id != first
    assert (partition.log_start_offset, partition.high_watermark) == (0, 0)


def test_what_was_decided_is_there_after_a_restart(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        stack.create("orders", 2, {"flush.ms": "5"})
        stack.create("gone")
        stack.ask(GROW, 3, topics=[{"name": "orders", "count": 3, "assignments": None}])
        stack.ask(DELETE, 6, topics=[{"name": "gone", "topic_id": None}])
        before: UUID = stack.services.image.topics["orders"].id
    with Stack(tmp_path) as stack:
        (topic,) = stack.services.image.topics.values()
        assert (topic.name, topic.id, dict(topic.configs)) == ("orders", before, {"flush.ms": "5"})
        assert [partition.leader_epoch for partition in topic.partitions] == [1, 1, 1]
        assert stack.settings_of("orders").flush_ms == 5
