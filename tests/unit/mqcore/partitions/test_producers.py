"""Idempotence, compared with a model that remembers everything each producer ever wrote."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqcore.partitions import producers as module
from mqcore.partitions.producers import REMEMBERED_BATCHES, Duplicate, ProducerBudget, Producers, sequence_after
from mqcore.wire.errors import ErrorCode, Refusal
from tests.unit.mqcore.partitions.helpers import header

WRAP = 2**31


@dataclass
class Model:
    """The rules of KIP-98 over all batches ever written, as (epoch, first sequence, count, offset)."""

    written: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)

    def verdict(self, producer: int, epoch: int, first: int, count: int) -> object:
        history = self.written.get(producer)
        if not history:
            return None
        newest = max(entry[0] for entry in history)
        if epoch < newest:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        mine = [entry for entry in history if entry[0] == epoch]
        if not mine:
            return None if first == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        for _, old_first, old_count, offset in mine[-5:]:
            if (old_first, old_count) == (first, count):
                return ("duplicate", offset)
        expected = (mine[-1][1] + mine[-1][2]) % WRAP
        return None if first == expected else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def outcome(found: object) -> object:
    match found:
        case Duplicate(offset, _, _):
            return ("duplicate", offset)
        case Refusal(error, _):
            return error
        case _:
            return found


producer_ids = st.integers(0, 2)
epochs = st.integers(0, 2)
steps = st.lists(
    st.tuples(
        producer_ids,
        epochs,
        st.sampled_from(["next", "next", "next", "retry", "gap", "zero", "any"]),
        st.integers(1, 4),
        st.integers(0, 8),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(steps, st.sampled_from([0, 5, WRAP - 3, WRAP - 1]))
def test_every_verdict_equals_the_models_also_after_a_snapshot(
    steps: list[tuple[int, int, str, int, int]], first_sequence: int
) -> None:
    model, machine, end = Model(), Producers(), 0
    for producer, epoch, kind, count, back in steps:
        mine = [entry for entry in model.written.get(producer, []) if entry[0] == epoch]
        sequence = first_sequence
        if kind == "zero":
            sequence = 0
        elif kind == "next" and mine:
            sequence = (mine[-1][1] + mine[-1][2]) % WRAP
        elif kind == "retry" and mine:
            _, sequence, count, _ = mine[-1 - back % len(mine)]
        elif kind == "gap" and mine:
            sequence = (mine[-1][1] + mine[-1][2] + back + 1) % WRAP
        asked = header(producer, epoch, sequence, count)
        expected = model.verdict(producer, epoch, sequence, count)
        restored = Producers()
        assert restored.restore(machine.snapshot())
        assert outcome(machine.check(asked)) == expected
        assert outcome(restored.check(asked)) == expected
        if expected is None:
            machine.observe(asked._replace(base_offset=end))
            model.written.setdefault(producer, []).append((epoch, sequence, count, end))
            end += count


def test_the_sequence_wraps_to_zero_after_its_maximum() -> None:
    assert sequence_after(WRAP - 1, 1) == 0
    assert sequence_after(WRAP - 2, 5) == 3
    producers = Producers()
    producers.observe(header(1, 0, WRAP - 2, 2, offset=10))
    assert producers.check(header(1, 0, 0)) is None
    assert isinstance(producers.check(header(1, 0, 1)), Refusal)


def test_a_repeated_batch_that_spans_the_wrap_is_a_duplicate() -> None:
    producers = Producers()
    spanning = header(1, 0, WRAP - 2, 4, offset=100)
    producers.observe(spanning)
    assert producers.check(spanning) == Duplicate(100, 103, 5)
    assert producers.check(header(1, 0, 2)) is None


def test_the_fifth_last_batch_is_a_duplicate_and_the_sixth_last_an_error() -> None:
    producers = Producers()
    for sequence in range(6):
        producers.observe(header(1, 0, sequence, offset=sequence))
    assert producers.check(header(1, 0, 1)) == Duplicate(1, 1, 5)
    assert outcome(producers.check(header(1, 0, 0))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_with_other_bounds_at_a_known_sequence_is_not_a_duplicate() -> None:
    producers = Producers()
    producers.observe(header(1, 0, 0, 3))
    assert outcome(producers.check(header(1, 0, 0, 2))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_expired_state_does_not_look_like_a_gap() -> None:
    producers = Producers()
    producers.observe(header(1, 0, 41))
    assert (
        outcome(producers.check(header(1, 0, 99))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )  # a known producer, so this is a gap
    producers.expire_idle(1_000, 500)
    producers.expire_idle(1_500, 500)
    assert len(producers) == 0
    assert producers.check(header(1, 0, 99)) is None


def test_only_producers_idle_for_the_whole_time_expire() -> None:
    producers = Producers()
    producers.observe(header(1, 0, 0))
    producers.observe(header(2, 0, 0))
    producers.expire_idle(1_000, 500)
    producers.observe(header(2, 0, 1))
    producers.expire_idle(1_500, 500)
    assert [producer for producer, _ in producers.by_id()] == [2]
    producers.expire_idle(1_999, 500)
    assert len(producers) == 1
    producers.expire_idle(2_000, 500)
    assert len(producers) == 0


def test_a_producer_id_without_epoch_or_sequence_is_refused() -> None:
    assert outcome(Producers().check(header(1, -1, 0))) is ErrorCode.INVALID_RECORD
    assert outcome(Producers().check(header(1, 0, -1))) is ErrorCode.INVALID_RECORD


def test_batches_without_a_producer_and_control_batches_leave_no_trace() -> None:
    producers = Producers()
    producers.observe(header(-1, -1, -1))
    producers.observe(header(1, 0, 0)._replace(attributes=0x20))
    assert len(producers) == 0


def test_a_damaged_snapshot_is_refused_and_changes_nothing() -> None:
    producers = Producers()
    producers.observe(header(1, 0, 0))
    snapshot = producers.snapshot()
    other = Producers()
    other.observe(header(9, 0, 0))
    for position in range(len(snapshot)):
        damaged = bytearray(snapshot)
        damaged[position] ^= 1
        assert not other.restore(bytes(damaged)), position
    for length in range(len(snapshot)):
        assert not other.restore(snapshot[:length]), length
    assert [producer for producer, _ in other.by_id()] == [9]
    assert other.restore(snapshot)


def test_the_longest_idle_producer_is_evicted_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PRODUCERS_MAX", 3)
    producers = Producers()
    for producer in (1, 2, 3, 1, 4):
        known = dict(producers.by_id()).get(producer)
        producers.observe(header(producer, 0, 0 if known is None else 1))
    assert [producer for producer, _ in producers.by_id()] == [3, 1, 4]


def test_invented_producers_evict_those_of_their_own_partition_only() -> None:
    budget = ProducerBudget(limit=100)
    orders, flooded = Producers(budget), Producers(budget)
    for producer in range(10):
        orders.observe(header(producer, 0, 0))
    for producer in range(1000):
        flooded.observe(header(producer, 0, 0))
        assert budget.count == len(orders) + len(flooded) <= 100
    assert len(orders) == 10
    late = Producers(budget)
    late.observe(header(7, 0, 0))
    late.observe(header(8, 0, 0))
    assert len(late) == 2 and budget.count <= 100


def test_a_removed_partition_returns_its_producers_to_the_budget() -> None:
    budget = ProducerBudget(limit=100)
    first, second = Producers(budget), Producers(budget)
    for producer in range(10):
        first.observe(header(producer, 0, 0))
    assert second.restore(first.snapshot()) and budget.count == 20
    assert second.restore(first.snapshot()) and budget.count == 20
    first.expire_idle(0, 0)
    first.expire_idle(1, 0)
    second.clear()
    assert budget.count == 0


def test_a_producer_takes_little_memory() -> None:
    producers, count = Producers(), 2000
    tracemalloc.start()
    try:
        for sequence in range(REMEMBERED_BATCHES):
            for producer in range(count):
                producers.observe(header(10**9 + producer, 0, sequence, offset=10**12 + producer))
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken / count < 500, "bytes a producer"
