"""Produce: each partition has its own outcome, and the answer waits for the commit of all, but not for ever."""

from __future__ import annotations

import errno
from typing import Any, cast

import pytest

from mqcore.apis import produce
from mqcore.apis.call import LATER
from mqcore.disk.memory import MemoryDisk
from mqcore.wire.errors import ErrorCode
from mqcore.wire.frames import BadFrame
from mqcore.wire.messages import decode_response
from mqcore.wire.produce import ProduceRequest, ProduceTopic, encode_produce_response
from mqcore.wire.records import Record, build_batch
from tests.unit.mqcore.apis.counter import IDS, ORDERS, PAYMENTS, Counter, CounterCall
from tests.unit.mqcore.partitions.stage import NOW_MS, batch

DURABLE = {"flush_messages": "1"}


def outcomes(answer: Any) -> list[tuple[str, int]]:
    """(error, base offset) of each partition."""
    return [(ErrorCode(part.error_code).name, part.base_offset) for _, _, parts in answer for part in parts]


def test_what_is_committed_at_once_is_answered_at_once() -> None:
    counter = Counter()
    answer, _ = counter.produce(ORDERS, PAYMENTS)
    assert outcomes(answer) == [("NONE", 0), ("NONE", 0)]
    answer, _ = counter.produce(ORDERS)
    assert outcomes(answer) == [("NONE", 1)]


def test_the_answer_waits_for_the_commit_of_every_partition() -> None:
    counter = Counter(**DURABLE)
    answer, call = counter.produce(ORDERS, PAYMENTS)
    assert answer is LATER
    counter.stages[ORDERS].sync()
    assert not call.answers
    counter.stages[PAYMENTS].sync()
    assert [outcomes(given) for given in call.answers] == [[("NONE", 0), ("NONE", 0)]]
    counter.clock.advance(60_000)
    assert len(call.answers) == 1


@pytest.mark.parametrize("acks", [1, -1])
def test_acks_1_waits_as_well_for_what_could_be_taken_back(acks: int) -> None:
    answer, _ = Counter(**DURABLE).produce(ORDERS, acks=acks)
    assert answer is LATER


def test_who_waits_longer_than_it_said_is_told_that_it_is_not_known() -> None:
    counter = Counter(**DURABLE)
    _, call = counter.produce(ORDERS, PAYMENTS, timeout_ms=1000)
    counter.stages[ORDERS].sync()
    counter.clock.advance(999)
    assert not call.answers
    counter.clock.advance(1)
    assert [outcomes(given) for given in call.answers] == [[("NONE", 0), ("REQUEST_TIMED_OUT", -1)]]
    counter.sync()
    assert len(call.answers) == 1


def test_a_fault_of_the_disk_is_told_to_who_waits() -> None:
    counter = Counter(**DURABLE)
    cast(MemoryDisk, counter.stages[ORDERS].disk).fail("sync", errno.EIO)
    _, call = counter.produce(ORDERS, PAYMENTS)
    counter.sync()
    assert [outcomes(given) for given in call.answers] == [[("KAFKA_STORAGE_ERROR", -1), ("NONE", 0)]]


def test_partitions_fail_each_for_itself() -> None:
    counter = Counter()
    counter.offline.add(PAYMENTS)
    answer, _ = counter.produce("absent", PAYMENTS, ORDERS)
    errors = [("UNKNOWN_TOPIC_OR_PARTITION", -1), ("KAFKA_STORAGE_ERROR", -1), ("NONE", 0)]
    assert outcomes(answer) == errors
    answer, _ = counter.produce(ORDERS, index=7)
    assert outcomes(answer) == [("UNKNOWN_TOPIC_OR_PARTITION", -1)]


def test_a_full_disk_refuses_everything_before_it_is_looked_at() -> None:
    counter = Counter()
    counter.disk_is_full = True
    answer, _ = counter.produce(ORDERS, PAYMENTS)
    assert outcomes(answer) == [("KAFKA_STORAGE_ERROR", -1)] * 2
    assert counter.stages[ORDERS].partition.log.end_offset == 0


def test_acks_0_is_never_answered_and_hangs_up_when_refused() -> None:
    counter = Counter(**DURABLE)
    answer, call = counter.produce(ORDERS, acks=0)
    assert answer is None and not call.hung_up
    counter.sync()
    assert not call.answers
    answer, call = counter.produce("absent", acks=0)
    assert answer is None and call.hung_up


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_do_not_exist(acks: int) -> None:
    answer, _ = Counter().produce(ORDERS, acks=acks)
    assert outcomes(answer) == [("INVALID_REQUIRED_ACKS", -1)]


def test_a_duplicate_is_answered_like_the_first() -> None:
    counter = Counter()
    counter.produce(ORDERS, data=batch(producer=4, sequence=0))
    counter.produce(ORDERS, data=batch(producer=4, sequence=1))
    answer, _ = counter.produce(ORDERS, data=batch(producer=4, sequence=0))
    assert outcomes(answer) == [("NONE", 0)]


def test_the_time_of_the_append_is_told_where_it_counts() -> None:
    counter = Counter(message_timestamp_type="LogAppendTime")
    answer, _ = counter.produce(ORDERS)
    assert answer[0][2][0].log_append_time_ms == counter.clock.wall_ms()
    answer, _ = Counter().produce(ORDERS)
    assert answer[0][2][0].log_append_time_ms == -1


def test_refusals_are_counted_by_error() -> None:
    counter = Counter()
    counter.produce("absent")
    assert counter.services.metrics.refused.cell("UNKNOWN_TOPIC_OR_PARTITION").value == 1


def test_a_topic_without_partitions_is_no_request() -> None:
    call = CounterCall(Counter(), 9)
    with pytest.raises(BadFrame):
        produce.handle(ProduceRequest(None, -1, 100, [ProduceTopic(ORDERS, None, [])]), call)


def test_no_version_is_answered_in_words_it_does_not_have() -> None:
    counter = Counter()
    for version in range(14):
        call = CounterCall(counter, version)
        name, topic_id = (None, IDS[ORDERS]) if version >= 13 else (ORDERS, None)
        request = ProduceRequest(None, -1, 100, [ProduceTopic(name, topic_id, [(0, batch())])])  # type: ignore[list-item]
        answer = produce.handle(request, call)
        expected = "NONE" if version >= 3 else "UNSUPPORTED_FOR_MESSAGE_FORMAT"
        assert outcomes(answer)[0][0] == expected
        assert produce.encode(version, cast(Any, answer))


@pytest.mark.parametrize(("acks", "error"), [(-1, ErrorCode.NOT_ENOUGH_REPLICAS), (1, 0), (0, 0)])
def test_acks_of_all_need_as_many_replicas_as_the_topic_asks_for(acks: int, error: int) -> None:
    counter = Counter(min_insync_replicas="2")
    response, call = counter.produce(ORDERS, acks=acks)
    end = counter.stages[ORDERS].partition.log.end_offset
    if acks == 0:
        assert end == 1 and not call.hung_up
        return
    ((_, _, (answer,)),) = response
    assert (answer.error_code, end) == (error, 0 if error else 1)


def test_the_records_without_a_key_are_named_in_the_answer() -> None:
    counter = Counter(cleanup_policy="compact")
    records = [Record(at, NOW_MS, key, b"v") for at, key in enumerate([b"a", None, b"b", None])]
    response, _ = counter.produce(ORDERS, data=memoryview(build_batch(records)))
    ((_, _, (answer,)),) = response
    assert answer.error_code == ErrorCode.INVALID_RECORD
    for version, named in ((7, []), (8, [1, 3]), (13, [1, 3])):
        topic = ORDERS if version < 13 else None
        body = encode_produce_response(version, [(topic, IDS[ORDERS], [answer])])
        found = decode_response(0, version, body).responses[0].partition_responses[0]
        errors = getattr(found, "record_errors", None) or []
        assert [each.batch_index for each in errors] == named
