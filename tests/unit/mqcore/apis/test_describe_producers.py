"""DescribeProducers: the idempotent producers of a partition."""

from __future__ import annotations

from mqcore.partitions.appender import Appended
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import Record, build_batch
from tests.unit.mqcore.apis.running_broker import RunningBroker


def test_the_idempotent_producers_of_a_partition_are_described(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    broker.append_records("orders", 1)  # by a producer without an id
    partition = broker.services.partitions.get("orders", 0)
    assert partition is not None
    now_ms = 1_700_000_000_000
    for sequence in (0, 2):
        records = [Record(index, now_ms + sequence + index, None, b"value") for index in range(2)]
        batch = build_batch(records, producer_id=77, producer_epoch=3, base_sequence=sequence)
        assert isinstance(partition.append(memoryview(batch), now_ms), Appended)
    response = broker.request(61, 0, topics=[{"name": "orders", "partition_indexes": [0, 9]}])
    ((described, unknown),) = (topic.partitions for topic in response.topics)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (producer,) = described.active_producers
    assert (producer.producer_id, producer.producer_epoch) == (77, 3)
    assert (producer.last_sequence, producer.last_timestamp) == (3, now_ms + 3)
    assert producer.current_txn_start_offset == -1
