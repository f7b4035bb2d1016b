"""Authorized operations: all of them, if the client requests them."""

from __future__ import annotations

import pytest

from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.running_broker import RunningBroker

NOT_ASKED = -(2**31)
TOPIC, CLUSTER = 0b1101_1111_1000, 0b1_1111_1010_0000


@pytest.mark.parametrize("version", [8, 10])
def test_metadata_includes_operations_of_existing_topics_and_the_cluster(broker: RunningBroker, version: int) -> None:
    broker.create_topic("orders")
    asked = [{"name": name} for name in ("orders", "nope")]
    how = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    told = broker.request(3, version, topics=asked, allow_auto_topic_creation=False, **how)
    assert told.cluster_authorized_operations == CLUSTER
    known, unknown = told.topics
    assert (known.error_code, known.topic_authorized_operations) == (ErrorCode.NONE, TOPIC)
    assert (unknown.error_code, unknown.topic_authorized_operations) == (3, NOT_ASKED)


def test_from_version_11_metadata_leaves_out_cluster_operations(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    told = broker.request(3, 13, topics=None, include_topic_authorized_operations=True)
    assert [topic.topic_authorized_operations for topic in told.topics] == [TOPIC]


def test_operations_are_left_out_unless_requested(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    told = broker.request(3, 10, topics=None)
    assert told.cluster_authorized_operations == NOT_ASKED
    assert [topic.topic_authorized_operations for topic in told.topics] == [NOT_ASKED]
