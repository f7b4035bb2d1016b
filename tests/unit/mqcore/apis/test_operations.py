"""What clients are told they may do: everything, if they ask."""

from __future__ import annotations

import pytest

from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.stack import Stack

NOT_ASKED = -(2**31)
TOPIC, CLUSTER = 0b1101_1111_1000, 0b1_1111_1010_0000


@pytest.mark.parametrize("version", [8, 10])
def test_metadata_tell_it_of_topics_that_exist_and_of_the_cluster(stack: Stack, version: int) -> None:
    stack.create("orders")
    asked = [{"name": name} for name in ("orders", "nope")]
    how = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    told = stack.ask(3, version, topics=asked, allow_auto_topic_creation=False, **how)
    assert told.cluster_authorized_operations == CLUSTER
    known, unknown = told.topics
    assert (known.error_code, known.topic_authorized_operations) == (ErrorCode.NONE, TOPIC)
    assert (unknown.error_code, unknown.topic_authorized_operations) == (3, NOT_ASKED)


def test_later_metadata_leave_the_cluster_to_another_request(stack: Stack) -> None:
    stack.create("orders")
    told = stack.ask(3, 13, topics=None, include_topic_authorized_operations=True)
    assert [topic.topic_authorized_operations for topic in told.topics] == [TOPIC]


def test_who_does_not_ask_is_not_told(stack: Stack) -> None:
    stack.create("orders")
    told = stack.ask(3, 10, topics=None)
    assert told.cluster_authorized_operations == NOT_ASKED
    assert [topic.topic_authorized_operations for topic in told.topics] == [NOT_ASKED]
