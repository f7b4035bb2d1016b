"""A fetch that waits: for enough, for its time, for a fault, for nobody, and for nothing once the broker stops."""

from __future__ import annotations

import errno
from typing import Any, cast

import pytest

from mqcore.apis import fetch
from mqcore.apis.call import LATER
from mqcore.disk.memory import MemoryDisk
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fetch import FetchRequest
from tests.unit.mqcore.apis.counter import ORDERS, PAYMENTS, Counter, CounterCall, fetch_request
from tests.unit.mqcore.partitions.stage import batch


def ask(counter: Counter, request: FetchRequest) -> tuple[Any, CounterCall]:
    call = CounterCall(counter, 11)
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


def append(counter: Counter, topic: str, size: int = 100) -> None:
    counter.stages[topic].append(batch(b"x" * size))


def test_what_is_there_is_given_at_once() -> None:
    counter = Counter()
    append(counter, ORDERS)
    answer, _ = ask(counter, fetch_request((ORDERS, 0)))
    ((error, size),) = parts(answer)
    assert error == "NONE" and size > 100


def test_an_append_wakes_it_once_the_loop_turns() -> None:
    counter = Counter()
    answer, call = ask(counter, fetch_request((ORDERS, 0), (PAYMENTS, 0)))
    assert answer is LATER
    append(counter, PAYMENTS)
    append(counter, PAYMENTS)  # many may move in one turn: it looks once
    counter.clock.advance(0)
    assert [[size > 0 for _, size in parts(given)] for given in call.answers] == [[False, True]]
    counter.clock.advance(60_000)
    assert len(call.answers) == 1


def test_it_sleeps_on_while_there_is_less_than_it_wants() -> None:
    counter = Counter()
    _, call = ask(counter, fetch_request((ORDERS, 0), min_bytes=400))
    for answered in (0, 0, 1):
        append(counter, ORDERS)
        counter.clock.advance(0)
        assert len(call.answers) == answered


def test_it_does_not_wait_for_more_behind_the_end_of_a_sealed_segment() -> None:
    counter = Counter()
    append(counter, ORDERS)
    counter.stages[ORDERS].partition.log.roll(0)
    append(counter, ORDERS)
    sealed, _ = ask(counter, fetch_request((ORDERS, 0), min_bytes=10_000))
    ((error, size),) = parts(sealed)
    assert error == "NONE" and size > 0
    active, _ = ask(counter, fetch_request((ORDERS, 1), min_bytes=10_000))
    assert active is LATER


def test_its_time_is_up_with_whatever_there_is() -> None:
    counter = Counter()
    _, call = ask(counter, fetch_request((ORDERS, 0), min_bytes=10_000, max_wait_ms=500))
    append(counter, ORDERS)
    counter.clock.advance(499)
    assert not call.answers
    counter.clock.advance(1)
    ((error, size),) = parts(call.answers[0])
    assert error == "NONE" and size > 0


def test_it_does_not_wait_when_told_not_to() -> None:
    answer, _ = ask(Counter(), fetch_request((ORDERS, 0), max_wait_ms=0))
    assert parts(answer) == [("NONE", 0)]


def test_an_error_of_one_partition_is_told_at_once() -> None:
    counter = Counter()
    answer, _ = ask(counter, fetch_request((ORDERS, 0), ("absent", 0)))
    assert parts(answer) == [("NONE", 0), ("UNKNOWN_TOPIC_OR_PARTITION", 0)]
    answer, _ = ask(counter, fetch_request((ORDERS, 5)))
    assert parts(answer) == [("OFFSET_OUT_OF_RANGE", 0)]


def test_a_partition_that_goes_offline_wakes_it() -> None:
    counter = Counter()
    append(counter, ORDERS)
    _, call = ask(counter, fetch_request((ORDERS, 1)))
    cast(MemoryDisk, counter.stages[ORDERS].disk).fail("append", errno.EIO)
    append(counter, ORDERS)
    counter.clock.advance(0)
    assert [parts(given) for given in call.answers] == [[("KAFKA_STORAGE_ERROR", 0)]]


def test_nobody_waits_for_a_client_that_is_gone() -> None:
    counter = Counter()
    _, call = ask(counter, fetch_request((ORDERS, 0), (PAYMENTS, 0)))
    assert call.when_gone is not None
    call.when_gone()
    append(counter, ORDERS)
    counter.clock.advance(60_000)
    assert not call.answers
    assert all(len(stage.partition.watchers) == 0 for stage in counter.stages.values())
    assert counter.clock.next_timer_ms is None


def test_an_answered_fetch_watches_nothing_any_more() -> None:
    counter = Counter()
    ask(counter, fetch_request((ORDERS, 0), (PAYMENTS, 0)))
    append(counter, ORDERS)
    counter.clock.advance(0)
    assert all(len(stage.partition.watchers) == 0 for stage in counter.stages.values())


def test_a_broker_that_stops_keeps_nobody_waiting() -> None:
    counter = Counter()
    _, call = ask(counter, fetch_request((ORDERS, 0)))
    counter.services.stopping = True
    counter.stages[ORDERS].partition.watchers.tell()
    counter.clock.advance(0)
    assert [parts(given) for given in call.answers] == [[("NONE", 0)]]


def test_only_durable_records_wake_it_where_that_is_asked_for() -> None:
    counter = Counter(flush_messages="1")
    _, call = ask(counter, fetch_request((ORDERS, 0)))
    append(counter, ORDERS)
    counter.clock.advance(1)
    assert not call.answers
    counter.sync()
    counter.clock.advance(0)
    assert len(call.answers) == 1


def test_epochs_of_the_leader_and_of_the_last_batch_are_checked() -> None:
    counter = Counter()
    append(counter, ORDERS)
    for current, error in ((2, "FENCED_LEADER_EPOCH"), (4, "UNKNOWN_LEADER_EPOCH"), (3, "NONE")):
        answer, _ = ask(counter, fetch_request((ORDERS, 0), current_epoch=current))
        assert parts(answer)[0][0] == error
    (_, topics), _ = ask(counter, fetch_request((ORDERS, 1), last_epoch=2))
    assert topics[0][2][0].diverging_epoch is not None
    answer, _ = ask(counter, fetch_request((ORDERS, 0), last_epoch=3))
    assert parts(answer)[0][1] > 0


def test_a_stranger_who_says_that_it_is_a_replica_is_given_nothing() -> None:
    """CVE-2018-1288: a client's fetch must not count as a replica's."""
    counter = Counter()
    append(counter, ORDERS)
    answer, _ = ask(counter, fetch_request((ORDERS, 0), replica=2))
    assert parts(answer) == [("NOT_LEADER_OR_FOLLOWER", 0)]


def test_a_partition_that_is_named_again_and_again_is_read_once() -> None:
    counter = Counter()
    append(counter, ORDERS)
    answer, _ = ask(counter, fetch_request(*[(ORDERS, 0)] * 1000, (PAYMENTS, 0)))
    assert [size > 0 for _, size in parts(answer)] == [True, False]


def test_a_fetch_of_many_partitions_looks_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MANY", 1)
    monkeypatch.setattr(fetch, "PAUSE_MS", 50)
    counter = Counter()
    _, call = ask(counter, fetch_request((ORDERS, 0), (PAYMENTS, 0)))
    append(counter, ORDERS)
    counter.clock.advance(99)
    assert not call.answers
    counter.clock.advance(1)
    assert len(call.answers) == 1


def test_read_committed_has_a_list_of_the_aborted_and_others_have_none() -> None:
    counter = Counter()
    append(counter, ORDERS)
    for isolation, aborted in ((1, []), (0, None)):
        (_, topics), _ = ask(counter, fetch_request((ORDERS, 0), isolation=isolation))
        assert topics[0][2][0].aborted == aborted


def test_a_full_answer_does_not_wait_for_more_bytes_than_it_may_hold() -> None:
    counter = Counter()
    for _ in range(20):
        counter.stages[ORDERS].append()
    answer, _ = ask(counter, fetch_request((ORDERS, 0), min_bytes=10_000, max_bytes=500))
    assert answer is not LATER


def test_fetches_of_many_partitions_do_not_wait_when_too_many_partitions_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "MANY", 1)
    monkeypatch.setattr(fetch, "WAITING_PARTITIONS_MAX", 3)
    counter = Counter()
    answer, first = ask(counter, fetch_request((ORDERS, 0), (PAYMENTS, 0)))
    assert answer is LATER and counter.services.waiting_partitions == 2
    answer, _ = ask(counter, fetch_request((ORDERS, 0), (PAYMENTS, 0)))
    assert parts(answer) == [("NONE", 0), ("NONE", 0)]
    answer, small = ask(counter, fetch_request((ORDERS, 0)))
    assert answer is LATER and counter.services.waiting_partitions == 3
    append(counter, ORDERS)
    counter.clock.advance(100)
    assert first.answers and small.answers and counter.services.waiting_partitions == 0
    assert not counter.stages[ORDERS].partition.watchers and not counter.stages[PAYMENTS].partition.watchers


def test_a_waiting_fetch_reads_what_moved_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Counter()
    answer, call = ask(counter, fetch_request((ORDERS, 0), (PAYMENTS, 0), min_bytes=400))
    assert answer is LATER
    orders, payments = counter.stages[ORDERS].partition, counter.stages[PAYMENTS].partition
    read: list[Partition] = []
    fetched = Partition.fetch

    def counted(partition: Partition, *arguments: Any, **options: Any) -> Any:
        read.append(partition)
        return fetched(partition, *arguments, **options)

    monkeypatch.setattr(Partition, "fetch", counted)
    append(counter, ORDERS)
    append(counter, ORDERS)
    counter.clock.advance(0)
    assert read == [orders] and not call.answers
    append(counter, PAYMENTS)
    counter.clock.advance(0)
    assert read == [orders, payments, orders, payments] and len(call.answers) == 1
    assert sum(size for _, size in parts(call.answers[0])) >= 400


def test_a_partition_that_is_named_twice_wakes_a_waiting_fetch() -> None:
    counter = Counter()
    _, call = ask(counter, fetch_request((ORDERS, 0), (ORDERS, 0), min_bytes=300))
    append(counter, ORDERS)
    counter.clock.advance(0)
    assert [size > 0 for _, size in parts(call.answers[0])] == [True, True]
