"""Clients can address topics, but not the metadata log."""

from __future__ import annotations

from uuid import UUID

from mqcore.apis.lookup import find_partition
from mqcore.controller.commands import CreateTopics, NewTopic
from mqcore.identity import METADATA_ID
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import Record, build_batch
from tests.unit.mqcore.apis.running_broker import RunningBroker

PRODUCE = 0


def produce(broker: RunningBroker, name: str | None = None, topic_id: UUID | None = None) -> tuple[int, int]:
    """(error, offset) of one record, by name or by id."""
    records = bytes(build_batch([Record(0, 1_700_000_000_000, b"key", b"value")]))
    named = {"topic_id": topic_id} if name is None else {"name": name}
    topic = {"partition_data": [{"index": 0, "records": records}], **named}
    version = 13 if name is None else 9
    response = broker.request(PRODUCE, version, acks=-1, timeout_ms=1000, topic_data=[topic])
    ((answer,),) = (topic.partition_responses for topic in response.responses)
    return answer.error_code, answer.base_offset


def test_a_partition_is_found_by_topic_name_and_by_topic_id(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    by_name = find_partition(broker.services, "orders", None, 0)
    assert isinstance(by_name, Partition)
    assert find_partition(broker.services, None, by_name.topic_id, 0) is by_name
    assert produce(broker, "orders") == (ErrorCode.NONE, 0)
    assert produce(broker, topic_id=by_name.topic_id) == (ErrorCode.NONE, 1)


def test_the_metadata_log_cannot_be_addressed(broker: RunningBroker) -> None:
    end = broker.services.quorum.log.end_offset
    assert find_partition(broker.services, "__cluster_metadata", None, 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert find_partition(broker.services, None, METADATA_ID, 0) is ErrorCode.UNKNOWN_TOPIC_ID
    assert produce(broker, "__cluster_metadata")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(broker, topic_id=METADATA_ID)[0] == ErrorCode.UNKNOWN_TOPIC_ID
    assert broker.services.quorum.log.end_offset == end


def test_clients_cannot_write_to_internal_topics(broker: RunningBroker) -> None:
    topic = NewTopic("__consumer_offsets", UUID(int=9), 1)
    broker.submit(CreateTopics((topic,), internal=True))
    assert produce(broker, "__consumer_offsets")[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert produce(broker, topic_id=UUID(int=9))[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
