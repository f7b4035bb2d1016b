"""Metadata: topics by name and by id."""

from __future__ import annotations

from uuid import UUID

import pytest

from mqcore.apis import metadata
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.running_broker import RunningBroker

METADATA = 3


@pytest.mark.parametrize("name", [None, ""])  # Java's client sends an empty name, others send null
def test_a_topic_is_found_by_its_id(broker: RunningBroker, name: str | None) -> None:
    broker.create_topic("orders")
    topic_id = broker.services.image.topics["orders"].id
    known, unknown = broker.request(
        METADATA, 12, topics=[{"name": name, "topic_id": id} for id in (topic_id, UUID(int=9))]
    ).topics
    assert (known.error_code, known.name, known.topic_id) == (ErrorCode.NONE, "orders", topic_id)
    assert (unknown.error_code, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, UUID(int=9))


def test_a_request_by_id_creates_no_topic(broker: RunningBroker) -> None:
    wanted = [{"name": "orders", "topic_id": UUID(int=9)}]
    (told,) = broker.request(METADATA, 12, topics=wanted, allow_auto_topic_creation=True).topics
    assert told.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert "orders" not in broker.services.image.topics


@pytest.mark.parametrize("version", range(10, 14))
@pytest.mark.parametrize("topic_id", [None, UUID(int=9)])
def test_a_topic_without_name_and_known_id_is_refused_in_every_version(
    broker: RunningBroker, version: int, topic_id: UUID | None
) -> None:
    (told,) = broker.request(METADATA, version, topics=[{"name": None, "topic_id": topic_id}]).topics
    assert told.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert told.name == (None if version >= 12 else "")


def test_the_cached_metadata_of_all_topics_is_rebuilt_when_something_changes(broker: RunningBroker) -> None:
    def told(version: int = 12) -> dict[str, list[int]]:
        topics = broker.request(METADATA, version, topics=None).topics
        return {topic.name: [part.error_code for part in topic.partitions] for topic in topics}

    assert told() == told() == {}
    broker.create_topic("orders")
    assert told() == told(9) == told() == {"orders": [ErrorCode.NONE]}
    partition = broker.services.partitions.get("orders", 0)
    assert partition is not None
    partition.go_offline("its disk is broken")
    assert told() == {"orders": [ErrorCode.LEADER_NOT_AVAILABLE]}


def test_the_metadata_of_all_topics_is_built_once_for_all_clients(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("orders")
    first = broker.request(METADATA, 12, topics=None)
    monkeypatch.setattr(metadata, "_topic", None)
    assert broker.request(METADATA, 12, topics=None) == first


def test_the_number_of_cached_metadata_responses_is_limited(broker: RunningBroker) -> None:
    for version in range(1, 14):
        broker.request(METADATA, version, topics=None)
    assert len(broker.services.all_topics.encoded) <= metadata.CACHED_RESPONSES_MAX
