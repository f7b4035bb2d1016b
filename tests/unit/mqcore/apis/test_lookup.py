"""What a client may address: topics, but never the log that the broker's own state stands on."""

from __future__ import annotations

from uuid import UUID

from mqcore.apis.lookup import find_partition
from mqcore.broker import METADATA_ID
from mqcore.controller.commands import CreateTopics, NewTopic
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import Record, build_batch
from tests.unit.mqcore.apis.stack import Stack

PRODUCE = 0


def produce(stack: Stack, name: str | None = None, topic_id: UUID | None = None) -> tuple[int, int]:
    """(error, offset) of one record, by name or by id."""
    records = bytes(build_batch([Record(0, 1_700_000_000_000, b"key", b"value")]))
    named = {"topic_id": topic_id} if name is None else {"name": name}
    topic = {"partition_data": [{"index": 0, "records": records}], **named}
    version = 13 if name is None else 9
    response = stack.ask(PRODUCE, version, acks=-1, timeout_ms=1000, topic_data=[topic])
    ((answer,),) = (topic.partition_responses for topic in response.responses)
    return answer.error_code, answer.base_offset


def test_a_topics_partition_is_found_by_name_and_by_id(stack: Stack) -> None:
    stack.create("orders")
    by_name = find_partition(stack.services, "orders", None, 0)
    assert isinstance(by_name, Partition)
    assert find_partition(stack.services, None, by_name.topic_id, 0) is by_name
    assert produce(stack, "orders") == (ErrorCode.NONE, 0)
    assert produce(stack, topic_id=by_name.topic_id) == (ErrorCode.NONE, 1)


def test_the_metadata_log_cannot_be_addressed(stack: Stack) -> None:
    end = stack.services.observer.partition.log.end_offset
    assert find_partition(stack.services, "__cluster_metadata", None, 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert find_partition(stack.services, None, METADATA_ID, 0) is ErrorCode.UNKNOWN_TOPIC_ID
    assert produce(stack, "__cluster_metadata")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(stack, topic_id=METADATA_ID)[0] == ErrorCode.UNKNOWN_TOPIC_ID
    assert stack.services.observer.partition.log.end_offset == end


def test_clients_do_not_write_to_the_topics_of_the_broker(stack: Stack) -> None:
    topic = NewTopic("__consumer_offsets", UUID(int=9), 1)
    stack.submit(CreateTopics((topic,), internal=True))
    assert produce(stack, "__consumer_offsets")[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert produce(stack, topic_id=UUID(int=9))[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
