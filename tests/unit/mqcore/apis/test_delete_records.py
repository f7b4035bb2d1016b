"""DeleteRecords: deleted records never return, and protected records cannot be deleted."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from mqcore.log.checkpoints import LOG_STARTS, decode_offsets
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.running_broker import RunningBroker


def delete(broker: RunningBroker, *wanted: tuple[str, int, int], version: int = 2) -> list[tuple[int, int]]:
    """(low watermark, error) of each partition."""
    topics = [
        {"name": topic, "partitions": [{"partition_index": index, "offset": offset}]} for topic, index, offset in wanted
    ]
    response = broker.request(21, version, topics=topics)
    answers: list[Any] = [partition for topic in response.topics for partition in topic.partitions]
    assert [answer.partition_index for answer in answers] == [index for _, index, _ in wanted]
    return [(answer.low_watermark, answer.error_code) for answer in answers]


@pytest.mark.parametrize("version", [0, 2])
def test_deleting_records_moves_the_log_start(broker: RunningBroker, version: int) -> None:
    broker.create_topic("orders", 2)
    broker.append_records("orders", 10)
    broker.append_records("orders", 10, partition=1)
    assert delete(broker, ("orders", 0, 4), ("orders", 1, -1), version=version) == [(4, 0), (10, 0)]
    partition = broker.services.partitions.get("orders", 0)
    assert partition is not None and partition.log_start_offset == 4


def test_the_new_log_start_is_on_disk_before_the_answer(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    broker.append_records("orders", 10)
    delete(broker, ("orders", 0, 4))
    written = decode_offsets((broker.data / LOG_STARTS).read_bytes())
    assert written is not None and {str(name): offset for name, offset in written.items()}["orders-0"] == 4


def test_deleting_records_again_is_harmless(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    broker.append_records("orders", 10)
    assert delete(broker, ("orders", 0, 4)) == delete(broker, ("orders", 0, 2)) == [(4, 0)]


@pytest.mark.parametrize("offset", [11, -2, 2**62])
def test_an_offset_outside_the_log_deletes_nothing(broker: RunningBroker, offset: int) -> None:
    broker.create_topic("orders")
    broker.append_records("orders", 10)
    assert delete(broker, ("orders", 0, offset)) == [(-1, ErrorCode.OFFSET_OUT_OF_RANGE)]


def test_deleting_from_a_missing_partition_is_an_error(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    unknown = (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert delete(broker, ("orders", 7, 0), ("nope", 0, 0), ("orders", 0, 0)) == [unknown, unknown, (0, 0)]


def test_records_of_a_topic_that_is_only_compacted_cannot_be_deleted(broker: RunningBroker) -> None:
    broker.create_topic("stock", configs={"cleanup.policy": "compact"})
    broker.create_topic("both", configs={"cleanup.policy": "compact,delete"})
    for topic in ("stock", "both"):
        broker.append_records(topic, 3)
    assert delete(broker, ("stock", 0, 1), ("both", 0, 1)) == [(-1, ErrorCode.POLICY_VIOLATION), (1, 0)]


def test_records_of_the_metadata_log_cannot_be_deleted(broker: RunningBroker) -> None:
    (answer,) = delete(broker, ("__cluster_metadata", 0, -1))
    assert answer[1] != ErrorCode.NONE and broker.services.quorum.log.start_offset == 0


def test_a_checkpoint_that_cannot_be_written_is_a_storage_error(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("orders")
    broker.append_records("orders", 10)

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(broker.services.durability, "write_checkpoints", full)
        assert delete(broker, ("orders", 0, 4)) == [(-1, ErrorCode.KAFKA_STORAGE_ERROR)]
    assert delete(broker, ("orders", 0, 4)) == [(4, 0)]


def test_a_refused_request_writes_no_checkpoint(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def unasked() -> None:
        raise AssertionError("a sync of the disk for nothing")

    with monkeypatch.context() as patched:
        patched.setattr(broker.services.durability, "write_checkpoints", unasked)
        assert delete(broker, ("nope", 0, 0)) == [(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_deleting_from_an_offline_partition_is_a_storage_error(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    partition = broker.services.partitions.get("orders", 0)
    assert partition is not None
    partition.go_offline("the disk is gone")
    assert delete(broker, ("orders", 0, -1)) == [(-1, ErrorCode.KAFKA_STORAGE_ERROR)]
