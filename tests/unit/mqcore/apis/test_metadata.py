"""Metadata: topics by name and by id."""

from __future__ import annotations

from uuid import UUID

import pytest

from mqcore.apis import metadata
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.stack import Stack

METADATA = 3


@pytest.mark.parametrize("name", [None, ""])  # Java's client sends an empty name, others none
def test_a_topic_is_found_by_its_id(stack: Stack, name: str | None) -> None:
    stack.create("orders")
    topic_id = stack.services.image.topics["orders"].id
    known, unknown = stack.ask(
        METADATA, 12, topics=[{"name": name, "topic_id": id} for id in (topic_id, UUID(int=9))]
    ).topics
    assert (known.error_code, known.name, known.topic_id) == (ErrorCode.NONE, "orders", topic_id)
    assert (unknown.error_code, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, UUID(int=9))


def test_asking_by_id_makes_no_topic(stack: Stack) -> None:
    wanted = [{"name": "orders", "topic_id": UUID(int=9)}]
    (told,) = stack.ask(METADATA, 12, topics=wanted, allow_auto_topic_creation=True).topics
    assert told.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert "orders" not in stack.services.image.topics


@pytest.mark.parametrize("version", range(10, 14))
@pytest.mark.parametrize("topic_id", [None, UUID(int=9)])
def test_a_topic_that_nobody_can_name_is_refused_in_every_version(
    stack: Stack, version: int, topic_id: UUID | None
) -> None:
    (told,) = stack.ask(METADATA, version, topics=[{"name": None, "topic_id": topic_id}]).topics
    assert told.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert told.name == (None if version >= 12 else "")


def test_a_kept_answer_for_all_topics_is_made_again_when_something_changes(stack: Stack) -> None:
    def told(version: int = 12) -> dict[str, list[int]]:
        topics = stack.ask(METADATA, version, topics=None).topics
        return {topic.name: [part.error_code for part in topic.partitions] for topic in topics}

    assert told() == told() == {}
    stack.create("orders")
    assert told() == told(9) == told() == {"orders": [ErrorCode.NONE]}
    partition = stack.services.partitions.get("orders", 0)
    assert partition is not None
    partition.go_offline("its disk is broken")
    assert told() == {"orders": [ErrorCode.LEADER_NOT_AVAILABLE]}


def test_all_topics_are_described_once_for_all_who_ask(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    stack.create("orders")
    first = stack.ask(METADATA, 12, topics=None)
    monkeypatch.setattr(metadata, "_describe", None)
    assert stack.ask(METADATA, 12, topics=None) == first


def test_few_kept_answers_take_memory(stack: Stack) -> None:
    for version in range(1, 14):
        stack.ask(METADATA, version, topics=None)
    assert len(stack.services.all_topics.encoded) <= metadata.MOST_KEPT_ANSWERS
