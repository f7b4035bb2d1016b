"""DescribeProducers: who has written to a partition."""

from __future__ import annotations

from mqcore.partitions.partition import Appended
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import Record, build_batch
from tests.unit.mqcore.apis.stack import Stack


def test_a_partition_tells_its_idempotent_producers(stack: Stack) -> None:
    stack.create("orders")
    stack.write("orders", 1)  # by nobody in particular
    partition = stack.services.partitions.get("orders", 0)
    assert partition is not None
    now_ms = 1_700_000_000_000
    for sequence in (0, 2):
        records = [Record(index, now_ms + sequence + index, None, b"value") for index in range(2)]
        batch = build_batch(records, producer_id=77, producer_epoch=3, base_sequence=sequence)
        assert isinstance(partition.append(memoryview(batch), now_ms), Appended)
    response = stack.ask(61, 0, topics=[{"name": "orders", "partition_indexes": [0, 9]}])
    ((described, unknown),) = (topic.partitions for topic in response.topics)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (producer,) = described.active_producers
    assert (producer.producer_id, producer.producer_epoch) == (77, 3)
    assert (producer.last_sequence, producer.last_timestamp) == (3, now_ms + 3)
    assert producer.current_txn_start_offset == -1
