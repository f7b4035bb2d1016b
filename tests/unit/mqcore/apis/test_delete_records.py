"""DeleteRecords: what is deleted stays deleted, and what must not be is not."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from mqcore.log.checkpoints import LOG_STARTS, decode_offsets
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.stack import Stack


def delete(stack: Stack, *wanted: tuple[str, int, int], version: int = 2) -> list[tuple[int, int]]:
    """(low watermark, error) of each."""
    topics = [
        {"name": topic, "partitions": [{"partition_index": index, "offset": offset}]} for topic, index, offset in wanted
    ]
    response = stack.ask(21, version, topics=topics)
    answers: list[Any] = [partition for topic in response.topics for partition in topic.partitions]
    assert [answer.partition_index for answer in answers] == [index for _, index, _ in wanted]
    return [(answer.low_watermark, answer.error_code) for answer in answers]


@pytest.mark.parametrize("version", [0, 2])
def test_the_log_starts_where_it_was_asked_to(stack: Stack, version: int) -> None:
    stack.create("orders", 2)
    stack.write("orders", 10)
    stack.write("orders", 10, partition=1)
    assert delete(stack, ("orders", 0, 4), ("orders", 1, -1), version=version) == [(4, 0), (10, 0)]
    partition = stack.services.partitions.get("orders", 0)
    assert partition is not None and partition.log_start_offset == 4


def test_it_is_on_disk_before_it_is_answered(stack: Stack) -> None:
    stack.create("orders")
    stack.write("orders", 10)
    delete(stack, ("orders", 0, 4))
    written = decode_offsets((stack.data / LOG_STARTS).read_bytes())
    assert written is not None and {str(name): offset for name, offset in written.items()}["orders-0"] == 4


def test_what_is_deleted_already_may_be_deleted_again(stack: Stack) -> None:
    stack.create("orders")
    stack.write("orders", 10)
    assert delete(stack, ("orders", 0, 4)) == delete(stack, ("orders", 0, 2)) == [(4, 0)]


@pytest.mark.parametrize("offset", [11, -2, 2**62])
def test_an_offset_outside_of_the_log_deletes_nothing(stack: Stack, offset: int) -> None:
    stack.create("orders")
    stack.write("orders", 10)
    assert delete(stack, ("orders", 0, offset)) == [(-1, ErrorCode.OFFSET_OUT_OF_RANGE)]


def test_partitions_that_are_not_there_are_unknown(stack: Stack) -> None:
    stack.create("orders")
    unknown = (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert delete(stack, ("orders", 7, 0), ("nope", 0, 0), ("orders", 0, 0)) == [unknown, unknown, (0, 0)]


def test_a_compacted_topic_keeps_its_records_unless_it_deletes_too(stack: Stack) -> None:
    stack.create("stock", configs={"cleanup.policy": "compact"})
    stack.create("both", configs={"cleanup.policy": "compact,delete"})
    for topic in ("stock", "both"):
        stack.write(topic, 3)
    assert delete(stack, ("stock", 0, 1), ("both", 0, 1)) == [(-1, ErrorCode.POLICY_VIOLATION), (1, 0)]


def test_the_metadata_log_is_no_topic_to_delete_from(stack: Stack) -> None:
    (answer,) = delete(stack, ("__cluster_metadata", 0, -1))
    assert answer[1] != ErrorCode.NONE and stack.services.observer.partition.log_start_offset == 0


def test_a_disk_that_cannot_remember_it_does_not_promise_it(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    stack.create("orders")
    stack.write("orders", 10)

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(stack.services.partitions, "checkpoint", full)
        assert delete(stack, ("orders", 0, 4)) == [(-1, ErrorCode.KAFKA_STORAGE_ERROR)]
    assert delete(stack, ("orders", 0, 4)) == [(4, 0)]


def test_a_request_that_moves_nothing_writes_nothing(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    def unasked() -> None:
        raise AssertionError("a sync of the disk for nothing")

    with monkeypatch.context() as patched:
        patched.setattr(stack.services.partitions, "checkpoint", unasked)
        assert delete(stack, ("nope", 0, 0)) == [(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_a_partition_whose_log_is_gone_says_so(stack: Stack) -> None:
    stack.create("orders")
    partition = stack.services.partitions.get("orders", 0)
    assert partition is not None
    partition.go_offline("the disk is gone")
    assert delete(stack, ("orders", 0, -1)) == [(-1, ErrorCode.KAFKA_STORAGE_ERROR)]
