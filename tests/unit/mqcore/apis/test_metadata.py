"""Metadata: topics by name and by id."""

from __future__ import annotations

from uuid import UUID

import pytest

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
