"""ListOffsets and OffsetForLeaderEpoch: what a log says of itself, and nothing beyond its high watermark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mqcore.apis import list_offsets, offset_for_leader_epoch
from mqcore.apis.call import Later
from mqcore.identity import LeaderEpoch
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import Record
from tests.unit.mqcore.apis.counter import ORDERS, Counter, CounterCall
from tests.unit.mqcore.log.bench import place, poisoned
from tests.unit.mqcore.partitions.stage import NOW_MS, batch

LATEST, EARLIEST, LARGEST = -1, -2, -3


def offset_at(counter: Counter, timestamp: int, *, version: int = 11, isolation: int = 0, topic: str = ORDERS) -> Any:
    wanted = SimpleNamespace(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    topics = [SimpleNamespace(name=topic, partitions=[wanted])]
    request = SimpleNamespace(isolation_level=isolation, topics=topics)
    response = list_offsets.handle(request, CounterCall(counter, version))
    assert not isinstance(response, Later)
    (answer,) = response["topics"][0]["partitions"]
    error = ErrorCode(answer.get("error_code", 0))
    return error.name if error else (answer["offset"], answer["timestamp"])


def filled(**settings: str) -> Counter:
    """Three batches, the second of them the youngest."""
    counter = Counter(**settings)
    for timestamp in (NOW_MS, NOW_MS + 20, NOW_MS + 10):
        counter.stages[ORDERS].append(batch(b"x", timestamp=timestamp))
    return counter


def test_the_ends_of_a_log() -> None:
    counter = filled()
    assert offset_at(counter, LATEST) == (3, -1)
    assert offset_at(counter, EARLIEST) == (0, -1)
    counter.stages[ORDERS].partition.delete_records(2)
    assert offset_at(counter, EARLIEST) == (2, -1)


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
def test_offsets_by_time_and_by_meaning(timestamp: int, found: tuple[int, int]) -> None:
    assert offset_at(filled(), timestamp) == found


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_a_meaning_is_not_served_before_its_version(timestamp: int, first: int) -> None:
    assert offset_at(filled(), timestamp, version=first - 1) == "UNSUPPORTED_VERSION"
    assert offset_at(filled(), timestamp, version=first) != "UNSUPPORTED_VERSION"


@pytest.mark.parametrize("isolation", [0, 1])
def test_nothing_above_the_high_watermark_is_told(isolation: int) -> None:
    counter = filled(flush_messages="1")
    assert offset_at(counter, LATEST, isolation=isolation) == (0, -1)
    assert offset_at(counter, NOW_MS, isolation=isolation) == (-1, -1)
    assert offset_at(counter, LARGEST, isolation=isolation) == (-1, -1)
    counter.sync()
    assert offset_at(counter, LATEST, isolation=isolation) == (3, -1)


def test_a_partition_that_is_named_twice_is_not_looked_at() -> None:
    wanted = SimpleNamespace(partition_index=0, current_leader_epoch=-1, timestamp=NOW_MS)
    topics = [SimpleNamespace(name=ORDERS, partitions=[wanted]), SimpleNamespace(name=ORDERS, partitions=[wanted])]
    answer = list_offsets.handle(SimpleNamespace(isolation_level=0, topics=topics), CounterCall(filled(), 11))
    assert not isinstance(answer, Later)
    errors = [part["error_code"] for topic in answer["topics"] for part in topic["partitions"]]
    assert errors == [ErrorCode.INVALID_REQUEST] * 2


def test_what_is_not_there_or_offline_says_so() -> None:
    counter = filled()
    assert offset_at(counter, LATEST, topic="absent") == "UNKNOWN_TOPIC_OR_PARTITION"
    counter.stages[ORDERS].partition.go_offline("disk")
    assert offset_at(counter, LATEST) == "KAFKA_STORAGE_ERROR"
    assert end_of(counter, 3) == "KAFKA_STORAGE_ERROR"


def end_of(counter: Counter, epoch: int, current: int = -1) -> Any:
    wanted = SimpleNamespace(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    request = SimpleNamespace(topics=[SimpleNamespace(topic=ORDERS, partitions=[wanted])])
    (answer,) = offset_for_leader_epoch.handle(request, CounterCall(counter, 4))["topics"][0]["partitions"]
    error = ErrorCode(answer.get("error_code", 0))
    return error.name if error else (answer["leader_epoch"], answer["end_offset"])


def test_where_an_epoch_ended() -> None:
    counter = filled()
    partition = counter.stages[ORDERS].partition
    partition.lead(LeaderEpoch(6))
    counter.stages[ORDERS].append()
    assert end_of(counter, 3) == (3, 3)
    assert end_of(counter, 5) == (3, 3)  # nothing was written in it
    assert end_of(counter, 6) == (6, 4)
    assert end_of(counter, 7) == (-1, -1)
    assert end_of(counter, 3, current=5) == "FENCED_LEADER_EPOCH"
    assert end_of(counter, 3, current=7) == "UNKNOWN_LEADER_EPOCH"


def test_a_long_search_gives_other_connections_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_offsets, "TURN_MS", -1)
    monkeypatch.setattr(list_offsets, "LEAST_STEPS", 0)
    counter = filled(segment_bytes="100")
    wanted = [SimpleNamespace(partition_index=0, current_leader_epoch=-1, timestamp=NOW_MS + 5)]
    topics = [SimpleNamespace(name=topic, partitions=wanted) for topic in (ORDERS, "payments", "nope")]
    request = SimpleNamespace(isolation_level=0, topics=topics)
    call, gone = CounterCall(counter, 11), CounterCall(counter, 11)
    assert isinstance(list_offsets.handle(request, call), Later)
    assert isinstance(list_offsets.handle(request, gone), Later)
    assert not call.answers and gone.when_gone is not None
    gone.when_gone()
    counter.clock.advance(0)
    (answer,) = call.answers
    found = [topic["partitions"][0] for topic in answer["topics"]]
    assert (found[0]["offset"], found[1]["offset"]) == (1, -1)
    assert found[2]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not gone.answers


def test_a_search_that_fails_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_offsets, "TURN_MS", -1)
    monkeypatch.setattr(list_offsets, "LEAST_STEPS", 0)
    counter = filled()
    wanted = SimpleNamespace(partition_index=0, current_leader_epoch=-1, timestamp=NOW_MS)
    request = SimpleNamespace(isolation_level=0, topics=[SimpleNamespace(name=ORDERS, partitions=[wanted])])
    call = CounterCall(counter, 11)
    assert isinstance(list_offsets.handle(request, call), Later)
    monkeypatch.setattr(
        type(counter.stages[ORDERS].partition.log.segments.active), "largest", property(lambda _: 1 // 0)
    )
    with pytest.raises(ZeroDivisionError):
        counter.clock.advance(0)
    assert call.hung_up and call.answers == [None]


@pytest.mark.parametrize("timestamp", [NOW_MS - 1, NOW_MS, LARGEST])
def test_a_batch_whose_timestamps_leave_64_bits_is_looked_up_like_any_other(timestamp: int) -> None:
    """From before such batches were refused on a compacted topic."""
    counter = filled()
    partition = counter.stages[ORDERS].partition
    found = [Record(0, 2**63 + 5, b"a", b"1"), Record(1, NOW_MS + 30, b"b", b"1")]
    data = poisoned(found, 2**63 - 1, NOW_MS + 30)
    partition.log.append(data, [place(data, 3, 3)], NOW_MS)
    partition._advance()
    assert offset_at(counter, timestamp) == ((4, NOW_MS + 30) if timestamp == LARGEST else (0, NOW_MS))
    assert offset_at(counter, NOW_MS + 25) == (4, NOW_MS + 30)


def test_a_log_that_turns_out_to_be_corrupt_goes_offline_with_an_alarm(caplog: pytest.LogCaptureFixture) -> None:
    counter = filled()
    partition = counter.stages[ORDERS].partition
    segment = partition.log.segments.active
    content = bytearray(segment.file.read(0, segment.size))
    content[16] = 9
    segment.file.truncate(0)
    segment.file.append([content])
    assert offset_at(counter, NOW_MS) == "KAFKA_STORAGE_ERROR"
    assert partition.offline is not None and "corrupt" in partition.offline
    assert [record.getMessage() for record in caplog.records] == ["partition offline"]
