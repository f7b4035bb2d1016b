"""Produce: each partition has its own outcome, and the answer waits until all are committed or the timeout passes."""

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
from tests.unit.mqcore.apis.memory_broker import IDS, ORDERS, PAYMENTS, MemoryBroker
from tests.unit.mqcore.partitions.helpers import NOW_MS, batch

DURABLE = {"flush_messages": "1"}


def outcomes(answer: Any) -> list[tuple[str, int]]:
    """(error, base offset) of each partition."""
    return [(ErrorCode(part.error_code).name, part.base_offset) for _, _, parts in answer for part in parts]


def test_a_batch_that_is_committed_at_once_is_answered_at_once() -> None:
    broker = MemoryBroker()
    answer, _ = broker.produce(ORDERS, PAYMENTS)
    assert outcomes(answer) == [("NONE", 0), ("NONE", 0)]
    answer, _ = broker.produce(ORDERS)
    assert outcomes(answer) == [("NONE", 1)]


def test_the_answer_waits_for_the_commit_of_every_partition() -> None:
    broker = MemoryBroker(**DURABLE)
    answer, call = broker.produce(ORDERS, PAYMENTS)
    assert answer is LATER
    broker.harnesses[ORDERS].sync()
    assert not call.answers
    broker.harnesses[PAYMENTS].sync()
    assert [outcomes(given) for given in call.answers] == [[("NONE", 0), ("NONE", 0)]]
    broker.clock.advance(60_000)
    assert len(call.answers) == 1


@pytest.mark.parametrize("acks", [1, -1])
def test_acks_1_waits_for_the_commit_too(acks: int) -> None:
    answer, _ = MemoryBroker(**DURABLE).produce(ORDERS, acks=acks)
    assert answer is LATER


def test_a_produce_that_exceeds_its_timeout_gets_request_timed_out() -> None:
    broker = MemoryBroker(**DURABLE)
    _, call = broker.produce(ORDERS, PAYMENTS, timeout_ms=1000)
    broker.harnesses[ORDERS].sync()
    broker.clock.advance(999)
    assert not call.answers
    broker.clock.advance(1)
    assert [outcomes(given) for given in call.answers] == [[("NONE", 0), ("REQUEST_TIMED_OUT", -1)]]
    broker.sync()
    assert len(call.answers) == 1


def test_a_disk_fault_fails_the_waiting_produce() -> None:
    broker = MemoryBroker(**DURABLE)
    cast(MemoryDisk, broker.harnesses[ORDERS].disk).fail("sync", errno.EIO)
    _, call = broker.produce(ORDERS, PAYMENTS)
    broker.sync()
    assert [outcomes(given) for given in call.answers] == [[("KAFKA_STORAGE_ERROR", -1), ("NONE", 0)]]


def test_partitions_of_one_produce_fail_independently() -> None:
    broker = MemoryBroker()
    broker.partitions.offline.add(PAYMENTS)
    answer, _ = broker.produce("absent", PAYMENTS, ORDERS)
    errors = [("UNKNOWN_TOPIC_OR_PARTITION", -1), ("KAFKA_STORAGE_ERROR", -1), ("NONE", 0)]
    assert outcomes(answer) == errors
    answer, _ = broker.produce(ORDERS, index=7)
    assert outcomes(answer) == [("UNKNOWN_TOPIC_OR_PARTITION", -1)]


def test_a_full_disk_refuses_every_partition() -> None:
    broker = MemoryBroker()
    broker.services.free_space.is_disk_full = True
    answer, _ = broker.produce(ORDERS, PAYMENTS)
    assert outcomes(answer) == [("KAFKA_STORAGE_ERROR", -1)] * 2
    assert broker.harnesses[ORDERS].partition.log.end_offset == 0


def test_acks_0_gets_no_response_and_closes_the_connection_after_a_refusal() -> None:
    broker = MemoryBroker(**DURABLE)
    answer, call = broker.produce(ORDERS, acks=0)
    assert answer is None and not call.has_hung_up
    broker.sync()
    assert not call.answers
    answer, call = broker.produce("absent", acks=0)
    assert answer is None and call.has_hung_up


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_values_of_acks_are_refused(acks: int) -> None:
    answer, _ = MemoryBroker().produce(ORDERS, acks=acks)
    assert outcomes(answer) == [("INVALID_REQUIRED_ACKS", -1)]


def test_a_duplicate_is_answered_like_the_first() -> None:
    broker = MemoryBroker()
    broker.produce(ORDERS, data=batch(producer=4, sequence=0))
    broker.produce(ORDERS, data=batch(producer=4, sequence=1))
    answer, _ = broker.produce(ORDERS, data=batch(producer=4, sequence=0))
    assert outcomes(answer) == [("NONE", 0)]


def test_the_append_time_is_returned_for_log_append_time() -> None:
    broker = MemoryBroker(message_timestamp_type="LogAppendTime")
    answer, _ = broker.produce(ORDERS)
    assert answer[0][2][0].log_append_time_ms == broker.clock.wall_ms()
    answer, _ = MemoryBroker().produce(ORDERS)
    assert answer[0][2][0].log_append_time_ms == -1


def test_refusals_are_counted_by_error() -> None:
    broker = MemoryBroker()
    broker.produce("absent")
    assert broker.services.metrics.refused.cell("UNKNOWN_TOPIC_OR_PARTITION").value == 1


def test_a_topic_without_partitions_is_a_bad_frame() -> None:
    call = MemoryBroker().call(9)
    with pytest.raises(BadFrame):
        produce.handle(ProduceRequest(None, -1, 100, [ProduceTopic(ORDERS, None, [])]), call)


def test_older_versions_get_errors_they_know() -> None:
    broker = MemoryBroker()
    for version in range(14):
        call = broker.call(version)
        name, topic_id = (None, IDS[ORDERS]) if version >= 13 else (ORDERS, None)
        request = ProduceRequest(None, -1, 100, [ProduceTopic(name, topic_id, [(0, batch())])])  # type: ignore[list-item]
        answer = produce.handle(request, call)
        expected = "NONE" if version >= 3 else "UNSUPPORTED_FOR_MESSAGE_FORMAT"
        assert outcomes(answer)[0][0] == expected
        assert produce.encode(version, cast(Any, answer))


@pytest.mark.parametrize(("acks", "error"), [(-1, ErrorCode.NOT_ENOUGH_REPLICAS), (1, 0), (0, 0)])
def test_acks_all_is_refused_if_min_insync_replicas_is_not_met(acks: int, error: int) -> None:
    broker = MemoryBroker(min_insync_replicas="2")
    response, call = broker.produce(ORDERS, acks=acks)
    end = broker.harnesses[ORDERS].partition.log.end_offset
    if acks == 0:
        assert end == 1 and not call.has_hung_up
        return
    ((_, _, (answer,)),) = response
    assert (answer.error_code, end) == (error, 0 if error else 1)


def test_the_response_names_the_records_without_a_key() -> None:
    broker = MemoryBroker(cleanup_policy="compact")
    records = [Record(at, NOW_MS, key, b"v") for at, key in enumerate([b"a", None, b"b", None])]
    response, _ = broker.produce(ORDERS, data=memoryview(build_batch(records)))
    ((_, _, (answer,)),) = response
    assert answer.error_code == ErrorCode.INVALID_RECORD
    for version, named in ((7, []), (8, [1, 3]), (13, [1, 3])):
        topic = ORDERS if version < 13 else None
        body = encode_produce_response(version, [(topic, IDS[ORDERS], [answer])])
        found = decode_response(0, version, body).responses[0].partition_responses[0]
        errors = getattr(found, "record_errors", None) or []
        assert [each.batch_index for each in errors] == named
