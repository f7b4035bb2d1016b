"""ListOffsets and OffsetForLeaderEpoch: offsets by time and by epoch, up to the high watermark."""

from __future__ import annotations

from typing import Any

import pytest

from mqcore.apis import list_offsets, offset_for_leader_epoch
from mqcore.apis.call import Later
from mqcore.identity import LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import Record
from mqcore.wire.requests.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mqcore.wire.requests.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.unit.mqcore.apis.memory_broker import ORDERS, MemoryBroker
from tests.unit.mqcore.log.helpers import place, poisoned
from tests.unit.mqcore.partitions.helpers import NOW_MS, batch

LATEST, EARLIEST, LARGEST = -1, -2, -3


def offset_at(
    broker: MemoryBroker, timestamp: int, *, version: int = 11, isolation: int = 0, topic: str = ORDERS, asks: int = -1
) -> Any:
    wanted = ListOffsetsPartition(timestamp=timestamp)
    topics = [ListOffsetsTopic(name=topic, partitions=[wanted])]
    request = ListOffsetsRequest(replica_id=asks, isolation_level=isolation, topics=topics)
    response = list_offsets.handle(request, broker.call(version))
    assert not isinstance(response, Later)
    (answer,) = response["topics"][0]["partitions"]
    error = ErrorCode(answer.get("error_code", 0))
    return error.name if error else (answer["offset"], answer["timestamp"])


def filled(**settings: str) -> MemoryBroker:
    """Three batches, of which the second has the latest timestamp."""
    broker = MemoryBroker(**settings)
    for timestamp in (NOW_MS, NOW_MS + 20, NOW_MS + 10):
        broker.harnesses[ORDERS].append(batch(b"x", timestamp=timestamp))
    return broker


def test_the_latest_and_earliest_offsets_are_the_ends_of_the_log() -> None:
    broker = filled()
    assert offset_at(broker, LATEST) == (3, -1)
    assert offset_at(broker, EARLIEST) == (0, -1)
    broker.harnesses[ORDERS].partition.delete_records(2)
    assert offset_at(broker, EARLIEST) == (2, -1)


def test_a_debugger_sees_the_end_of_the_copy_and_clients_only_what_is_committed() -> None:
    broker = filled()
    partition = broker.harnesses[ORDERS].partition
    partition.high_watermark = Offset(2)  # the followers of a leader have copied no more
    assert offset_at(broker, LATEST) == (2, -1)
    assert offset_at(broker, LATEST, asks=list_offsets.DEBUGGER) == (3, -1)
    assert offset_at(broker, EARLIEST, asks=list_offsets.DEBUGGER) == "INVALID_REQUEST"
    assert offset_at(broker, LATEST, topic="missing", asks=list_offsets.DEBUGGER) == "UNKNOWN_TOPIC_OR_PARTITION"
    partition.await_term("it leads no more")
    assert offset_at(broker, LATEST) == "NOT_LEADER_OR_FOLLOWER"
    assert offset_at(broker, LATEST, asks=list_offsets.DEBUGGER) == (3, -1)


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (0, (0, NOW_MS)),
        (NOW_MS, (0, NOW_MS)),
        (NOW_MS + 1, (1, NOW_MS + 20)),
        (NOW_MS + 20, (1, NOW_MS + 20)),
        (NOW_MS + 21, (-1, -1)),
        (LARGEST, (1, NOW_MS + 20)),
        (-4, (0, -1)),
        (-5, (-1, -1)),
        (-6, (-1, -1)),
        (-99, (-1, -1)),
    ],
)
def test_offsets_are_found_by_time_and_by_special_time(timestamp: int, found: tuple[int, int]) -> None:
    assert offset_at(filled(), timestamp) == found


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_a_special_time_is_refused_before_its_version(timestamp: int, first: int) -> None:
    assert offset_at(filled(), timestamp, version=first - 1) == "UNSUPPORTED_VERSION"
    assert offset_at(filled(), timestamp, version=first) != "UNSUPPORTED_VERSION"


@pytest.mark.parametrize("isolation", [0, 1])
def test_no_offset_above_the_high_watermark_is_returned(isolation: int) -> None:
    broker = filled(flush_messages="1")
    assert offset_at(broker, LATEST, isolation=isolation) == (0, -1)
    assert offset_at(broker, NOW_MS, isolation=isolation) == (-1, -1)
    assert offset_at(broker, LARGEST, isolation=isolation) == (-1, -1)
    broker.sync()
    assert offset_at(broker, LATEST, isolation=isolation) == (3, -1)


def test_a_partition_that_is_named_twice_is_refused() -> None:
    wanted = ListOffsetsPartition(timestamp=NOW_MS)
    topics = [ListOffsetsTopic(name=ORDERS, partitions=[wanted]), ListOffsetsTopic(name=ORDERS, partitions=[wanted])]
    answer = list_offsets.handle(ListOffsetsRequest(isolation_level=0, topics=topics), filled().call(11))
    assert not isinstance(answer, Later)
    errors = [part["error_code"] for topic in answer["topics"] for part in topic["partitions"]]
    assert errors == [ErrorCode.INVALID_REQUEST] * 2


def test_missing_and_offline_partitions_have_errors() -> None:
    broker = filled()
    assert offset_at(broker, LATEST, topic="absent") == "UNKNOWN_TOPIC_OR_PARTITION"
    broker.harnesses[ORDERS].partition.go_offline("disk")
    assert offset_at(broker, LATEST) == "KAFKA_STORAGE_ERROR"
    assert end_of(broker, 3) == "KAFKA_STORAGE_ERROR"


def end_of(broker: MemoryBroker, epoch: int, current: int = -1) -> Any:
    wanted = OffsetForLeaderPartition(current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=ORDERS, partitions=[wanted])])
    (answer,) = offset_for_leader_epoch.handle(request, broker.call(4))["topics"][0]["partitions"]
    error = ErrorCode(answer.get("error_code", 0))
    return error.name if error else (answer["leader_epoch"], answer["end_offset"])


def test_the_end_offset_of_an_epoch_is_found() -> None:
    broker = filled()
    broker.harnesses[ORDERS].lead(LeaderEpoch(6))
    broker.harnesses[ORDERS].append()
    assert end_of(broker, 3) == (3, 3)
    assert end_of(broker, 5) == (3, 3)  # nothing was written in this epoch
    assert end_of(broker, 6) == (6, 4)
    assert end_of(broker, 7) == (-1, -1)
    assert end_of(broker, 3, current=5) == "FENCED_LEADER_EPOCH"
    assert end_of(broker, 3, current=7) == "UNKNOWN_LEADER_EPOCH"


def test_a_long_search_yields_to_other_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_offsets, "TURN_MS_MAX", -1)
    monkeypatch.setattr(list_offsets, "UNTIMED_STEPS", 0)
    broker = filled(segment_bytes="100")
    wanted = [ListOffsetsPartition(timestamp=NOW_MS + 5)]
    topics = [ListOffsetsTopic(name=topic, partitions=wanted) for topic in (ORDERS, "payments", "nope")]
    request = ListOffsetsRequest(isolation_level=0, topics=topics)
    call, gone = broker.call(11), broker.call(11)
    assert isinstance(list_offsets.handle(request, call), Later)
    assert isinstance(list_offsets.handle(request, gone), Later)
    assert not call.answers and gone.when_gone is not None
    gone.when_gone()
    broker.clock.advance(0)
    (answer,) = call.answers
    found = [topic["partitions"][0] for topic in answer["topics"]]
    assert (found[0]["offset"], found[1]["offset"]) == (1, -1)
    assert found[2]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not gone.answers


def test_a_search_that_fails_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_offsets, "TURN_MS_MAX", -1)
    monkeypatch.setattr(list_offsets, "UNTIMED_STEPS", 0)
    broker = filled()
    wanted = ListOffsetsPartition(timestamp=NOW_MS)
    request = ListOffsetsRequest(isolation_level=0, topics=[ListOffsetsTopic(name=ORDERS, partitions=[wanted])])
    call = broker.call(11)
    assert isinstance(list_offsets.handle(request, call), Later)
    monkeypatch.setattr(
        type(broker.harnesses[ORDERS].partition.log.segments.active), "largest", property(lambda _: 1 // 0)
    )
    with pytest.raises(ZeroDivisionError):
        broker.clock.advance(0)
    assert call.has_hung_up and call.answers == [None]


@pytest.mark.parametrize("timestamp", [NOW_MS - 1, NOW_MS, LARGEST])
def test_a_batch_with_overflowing_timestamps_is_searched_like_any_other(timestamp: int) -> None:
    """Such batches exist in logs from before they were refused on compacted topics."""
    broker = filled()
    partition = broker.harnesses[ORDERS].partition
    found = [Record(0, 2**63 + 5, b"a", b"1"), Record(1, NOW_MS + 30, b"b", b"1")]
    data = poisoned(found, 2**63 - 1, NOW_MS + 30)
    partition.log.append(data, [place(data, 3, 3)], NOW_MS)
    partition._advance()
    assert offset_at(broker, timestamp) == ((4, NOW_MS + 30) if timestamp == LARGEST else (0, NOW_MS))
    assert offset_at(broker, NOW_MS + 25) == (4, NOW_MS + 30)


def test_a_corrupt_log_takes_the_partition_offline_with_an_alarm(caplog: pytest.LogCaptureFixture) -> None:
    broker = filled()
    partition = broker.harnesses[ORDERS].partition
    segment = partition.log.segments.active
    content = bytearray(segment.file.read(0, segment.size))
    content[16] = 9
    segment.file.truncate(0)
    segment.file.append([content])
    assert offset_at(broker, NOW_MS) == "KAFKA_STORAGE_ERROR"
    assert partition.is_offline and "corrupt" in (partition.offline_reason or "")
    assert [record.getMessage() for record in caplog.records] == ["partition offline"]
