"""A waiting fetch is answered when it has enough bytes, when its time is up, after a fault, or when the broker
stops."""

from __future__ import annotations

import errno
from typing import Any, cast

import pytest

from mqcore.apis import fetch
from mqcore.apis.call import LATER
from mqcore.disk.memory import MemoryDisk
from mqcore.partitions.partition import Partition
from mqcore.partitions.reads import ReadOutcome, ReadRequest
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fetch import FetchRequest
from tests.unit.mqcore.apis.memory_broker import ORDERS, PAYMENTS, MemoryBroker, fetch_request
from tests.unit.mqcore.fake_call import FakeCall
from tests.unit.mqcore.partitions.helpers import batch


def ask(broker: MemoryBroker, request: FetchRequest) -> tuple[Any, FakeCall]:
    call = broker.call(11)
    return fetch.handle(request, call), call


def parts(answer: Any) -> list[tuple[str, int]]:
    """(error, bytes) of each partition."""
    error, topics = answer
    assert error is ErrorCode.NONE
    found = []
    for _, _, results in topics:
        for result in results:
            size = len(result.records) if isinstance(result.records, bytes) else result.records.length
            found.append((ErrorCode(result.error_code).name, size))
    return found


def append(broker: MemoryBroker, topic: str, size: int = 100) -> None:
    broker.harnesses[topic].append(batch(b"x" * size))


def test_available_records_are_returned_at_once() -> None:
    broker = MemoryBroker()
    append(broker, ORDERS)
    answer, _ = ask(broker, fetch_request((ORDERS, 0)))
    ((error, size),) = parts(answer)
    assert error == "NONE" and size > 100


def test_an_append_answers_a_waiting_fetch_at_the_end_of_the_turn() -> None:
    broker = MemoryBroker()
    answer, call = ask(broker, fetch_request((ORDERS, 0), (PAYMENTS, 0)))
    assert answer is LATER
    append(broker, PAYMENTS)
    append(broker, PAYMENTS)  # several appends in one turn cause one retry
    broker.clock.advance(0)
    assert [[size > 0 for _, size in parts(given)] for given in call.answers] == [[False, True]]
    broker.clock.advance(60_000)
    assert len(call.answers) == 1


def test_a_fetch_waits_until_min_bytes_are_available() -> None:
    broker = MemoryBroker()
    _, call = ask(broker, fetch_request((ORDERS, 0), min_bytes=400))
    for answered in (0, 0, 1):
        append(broker, ORDERS)
        broker.clock.advance(0)
        assert len(call.answers) == answered


def test_a_fetch_does_not_wait_for_more_at_the_end_of_a_sealed_segment() -> None:
    broker = MemoryBroker()
    append(broker, ORDERS)
    broker.harnesses[ORDERS].partition.log.roll(0)
    append(broker, ORDERS)
    sealed, _ = ask(broker, fetch_request((ORDERS, 0), min_bytes=10_000))
    ((error, size),) = parts(sealed)
    assert error == "NONE" and size > 0
    active, _ = ask(broker, fetch_request((ORDERS, 1), min_bytes=10_000))
    assert active is LATER


def test_after_its_wait_a_fetch_returns_what_is_available() -> None:
    broker = MemoryBroker()
    _, call = ask(broker, fetch_request((ORDERS, 0), min_bytes=10_000, max_wait_ms=500))
    append(broker, ORDERS)
    broker.clock.advance(499)
    assert not call.answers
    broker.clock.advance(1)
    ((error, size),) = parts(call.answers[0])
    assert error == "NONE" and size > 0


def test_a_fetch_without_a_wait_time_is_answered_at_once() -> None:
    answer, _ = ask(MemoryBroker(), fetch_request((ORDERS, 0), max_wait_ms=0))
    assert parts(answer) == [("NONE", 0)]


def test_an_error_of_one_partition_is_returned_at_once() -> None:
    broker = MemoryBroker()
    answer, _ = ask(broker, fetch_request((ORDERS, 0), ("absent", 0)))
    assert parts(answer) == [("NONE", 0), ("UNKNOWN_TOPIC_OR_PARTITION", 0)]
    answer, _ = ask(broker, fetch_request((ORDERS, 5)))
    assert parts(answer) == [("OFFSET_OUT_OF_RANGE", 0)]


def test_a_partition_that_goes_offline_answers_the_waiting_fetch() -> None:
    broker = MemoryBroker()
    append(broker, ORDERS)
    _, call = ask(broker, fetch_request((ORDERS, 1)))
    cast(MemoryDisk, broker.harnesses[ORDERS].disk).fail("append", errno.EIO)
    append(broker, ORDERS)
    broker.clock.advance(0)
    assert [parts(given) for given in call.answers] == [[("KAFKA_STORAGE_ERROR", 0)]]


def test_a_fetch_whose_client_disconnects_stops_waiting() -> None:
    broker = MemoryBroker()
    _, call = ask(broker, fetch_request((ORDERS, 0), (PAYMENTS, 0)))
    assert call.when_gone is not None
    call.when_gone()
    append(broker, ORDERS)
    broker.clock.advance(60_000)
    assert not call.answers
    assert all(len(stage.partition.watchers) == 0 for stage in broker.harnesses.values())
    assert broker.clock.next_timer_ms is None


def test_an_answered_fetch_watches_no_partition() -> None:
    broker = MemoryBroker()
    ask(broker, fetch_request((ORDERS, 0), (PAYMENTS, 0)))
    append(broker, ORDERS)
    broker.clock.advance(0)
    assert all(len(stage.partition.watchers) == 0 for stage in broker.harnesses.values())


def test_a_stopping_broker_answers_waiting_fetches() -> None:
    broker = MemoryBroker()
    _, call = ask(broker, fetch_request((ORDERS, 0)))
    broker.services.is_stopping = True
    broker.harnesses[ORDERS].partition.watchers.notify()
    broker.clock.advance(0)
    assert [parts(given) for given in call.answers] == [[("NONE", 0)]]


def test_with_flush_messages_1_only_durable_records_answer_a_fetch() -> None:
    broker = MemoryBroker(flush_messages="1")
    _, call = ask(broker, fetch_request((ORDERS, 0)))
    append(broker, ORDERS)
    broker.clock.advance(1)
    assert not call.answers
    broker.sync()
    broker.clock.advance(0)
    assert len(call.answers) == 1


def test_a_fetch_checks_the_leader_epoch_and_the_last_fetched_epoch() -> None:
    broker = MemoryBroker()
    append(broker, ORDERS)
    for current, error in ((2, "FENCED_LEADER_EPOCH"), (4, "UNKNOWN_LEADER_EPOCH"), (3, "NONE")):
        answer, _ = ask(broker, fetch_request((ORDERS, 0), current_epoch=current))
        assert parts(answer)[0][0] == error
    (_, topics), _ = ask(broker, fetch_request((ORDERS, 1), last_epoch=2))
    assert topics[0][2][0].diverging_epoch is not None
    answer, _ = ask(broker, fetch_request((ORDERS, 0), last_epoch=3))
    assert parts(answer)[0][1] > 0


def test_a_client_that_claims_to_be_a_replica_gets_no_records() -> None:
    """CVE-2018-1288: a client's fetch must not count as a replica's."""
    broker = MemoryBroker()
    append(broker, ORDERS)
    answer, _ = ask(broker, fetch_request((ORDERS, 0), replica=2))
    assert parts(answer) == [("NOT_LEADER_OR_FOLLOWER", 0)]


def test_a_partition_that_is_named_often_is_read_once() -> None:
    broker = MemoryBroker()
    append(broker, ORDERS)
    answer, _ = ask(broker, fetch_request(*[(ORDERS, 0)] * 1000, (PAYMENTS, 0)))
    assert [size > 0 for _, size in parts(answer)] == [True, False]


def test_a_waiting_fetch_of_many_partitions_retries_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "PROMPT_PARTITIONS_MAX", 1)
    monkeypatch.setattr(fetch, "PAUSE_PER_PARTITION_MS", 50)
    broker = MemoryBroker()
    _, call = ask(broker, fetch_request((ORDERS, 0), (PAYMENTS, 0)))
    append(broker, ORDERS)
    broker.clock.advance(99)
    assert not call.answers
    broker.clock.advance(1)
    assert len(call.answers) == 1


def test_only_read_committed_gets_a_list_of_aborted_transactions() -> None:
    broker = MemoryBroker()
    append(broker, ORDERS)
    for isolation, aborted in ((1, []), (0, None)):
        (_, topics), _ = ask(broker, fetch_request((ORDERS, 0), isolation=isolation))
        assert topics[0][2][0].aborted == aborted


def test_a_full_response_does_not_wait_for_min_bytes() -> None:
    broker = MemoryBroker()
    for _ in range(20):
        broker.harnesses[ORDERS].append()
    answer, _ = ask(broker, fetch_request((ORDERS, 0), min_bytes=10_000, max_bytes=500))
    assert answer is not LATER


def test_large_fetches_do_not_wait_while_too_many_partitions_are_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "PROMPT_PARTITIONS_MAX", 1)
    monkeypatch.setattr(fetch, "WAITING_PARTITIONS_MAX", 3)
    broker = MemoryBroker()
    answer, first = ask(broker, fetch_request((ORDERS, 0), (PAYMENTS, 0)))
    assert answer is LATER and broker.services.waiting_partitions == 2
    answer, _ = ask(broker, fetch_request((ORDERS, 0), (PAYMENTS, 0)))
    assert parts(answer) == [("NONE", 0), ("NONE", 0)]
    answer, small = ask(broker, fetch_request((ORDERS, 0)))
    assert answer is LATER and broker.services.waiting_partitions == 3
    append(broker, ORDERS)
    broker.clock.advance(100)
    assert first.answers and small.answers and broker.services.waiting_partitions == 0
    assert not broker.harnesses[ORDERS].partition.watchers and not broker.harnesses[PAYMENTS].partition.watchers


def test_a_waiting_fetch_reads_only_partitions_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = MemoryBroker()
    answer, call = ask(broker, fetch_request((ORDERS, 0), (PAYMENTS, 0), min_bytes=400))
    assert answer is LATER
    orders, payments = broker.harnesses[ORDERS].partition, broker.harnesses[PAYMENTS].partition
    read: list[Partition] = []
    original = Partition.read

    def counted(partition: Partition, request: ReadRequest) -> ReadOutcome:
        read.append(partition)
        return original(partition, request)

    monkeypatch.setattr(Partition, "read", counted)
    append(broker, ORDERS)
    append(broker, ORDERS)
    broker.clock.advance(0)
    assert read == [orders] and not call.answers
    append(broker, PAYMENTS)
    broker.clock.advance(0)
    assert read == [orders, payments, orders, payments] and len(call.answers) == 1
    assert sum(size for _, size in parts(call.answers[0])) >= 400


def test_a_waiting_fetch_that_names_a_partition_twice_is_answered() -> None:
    broker = MemoryBroker()
    _, call = ask(broker, fetch_request((ORDERS, 0), (ORDERS, 0), min_bytes=300))
    append(broker, ORDERS)
    broker.clock.advance(0)
    assert [size > 0 for _, size in parts(call.answers[0])] == [True, True]
