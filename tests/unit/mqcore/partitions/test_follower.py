"""What a follower asks for, and what it does with each possible answer."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from mqcore.identity import LeaderEpoch, Millis, Offset
from mqcore.partitions.follower import (
    BACKOFF_MS,
    Append,
    AwaitMetadata,
    Back,
    FollowerState,
    Ignore,
    StartAt,
    Step,
    Truncate,
)
from mqcore.partitions.reads import ReplicaFetch
from mqcore.wire.batches import stamp
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fetch import FetchedPartition
from tests.unit.mqcore.log.helpers import batch
from tests.unit.mqcore.partitions.replicas import ONE, TWO, FakeLog

EPOCH = LeaderEpoch(5)
NOW = Millis(10_000)


def follower(*, durable_only: bool = False) -> FollowerState:
    return FollowerState(TWO, 12, ONE, EPOCH, durable_only=durable_only)


def asked(state: FollowerState, log: FakeLog, now: int = NOW) -> ReplicaFetch:
    ask = state.ask(log, Millis(now))
    assert ask is not None
    return ask


def answered(log: FakeLog, answer: FetchedPartition) -> Step:
    state = follower()
    return state.decide(asked(state, log), answer, log, NOW)


def records(base: int, *sizes: int, epoch: int = EPOCH) -> bytes:
    """Batches one after the other from offset `base` on."""
    data = b""
    for size in sizes:
        one = batch([b"v"] * size)
        stamp(one, base, epoch)
        data, base = data + bytes(one), base + size
    return data


def served(data: bytes = b"", high_watermark: int = 0, log_start: int = 0) -> FetchedPartition:
    return FetchedPartition(0, 0, high_watermark, high_watermark, log_start, data)


def diverging(epoch: int, end: int) -> FetchedPartition:
    return FetchedPartition(0, diverging_epoch=(epoch, end))


def refused(error: ErrorCode, log_start: int = -1) -> FetchedPartition:
    return FetchedPartition(0, error, log_start_offset=log_start)


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_request_says_what_the_follower_has() -> None:
    ask = asked(follower(), FakeLog(7, start_offset=2, starts=((3, 2),)))
    assert (ask.replica, ask.broker_epoch, ask.leader_epoch) == (TWO, 12, EPOCH)
    assert (ask.offset, ask.last_fetched_epoch, ask.log_start) == (7, 3, 2)


def test_there_is_one_request_at_a_time() -> None:
    state, log = follower(), FakeLog()
    ask = asked(state, log)
    assert state.ask(log, NOW) is None and state.deadline() is None
    state.failed(ask, NOW)
    assert state.ask(log, NOW) is None and state.deadline() == NOW + BACKOFF_MS
    assert asked(state, log, NOW + BACKOFF_MS) is not ask


def test_with_flush_messages_one_a_request_promises_only_what_is_durable() -> None:
    log = FakeLog(7, flushed_offset=5)
    state = follower(durable_only=True)
    assert state.ask(log, NOW) is None
    log.flushed_offset = 7
    assert asked(state, log).offset == 7


def test_without_flush_messages_a_request_does_not_wait_for_a_sync() -> None:
    assert asked(follower(), FakeLog(7, flushed_offset=5)).offset == 7


# ── batches ──────────────────────────────────────────────────────────────────────────────────────────────


def test_batches_that_continue_the_log_are_appended_with_the_leaders_offsets() -> None:
    data = records(7, 2, 3)
    step = answered(FakeLog(7), served(data, high_watermark=9, log_start=4))
    assert isinstance(step, Append)
    assert (bytes(step.records), step.high_watermark, step.log_start) == (data, 9, 4)
    assert [(header.base_offset, header.leader_epoch) for header in step.headers] == [(7, EPOCH), (9, EPOCH)]


def test_the_high_watermark_does_not_pass_the_own_end() -> None:
    step = answered(FakeLog(7), served(records(7, 2), high_watermark=20, log_start=15))
    assert isinstance(step, Append) and step.high_watermark == 9 and step.log_start == 9


def test_an_empty_answer_still_moves_the_offsets() -> None:
    step = answered(FakeLog(7), served(high_watermark=6, log_start=3))
    assert step == Append(b"", (), Offset(6), Offset(3))


def test_an_incomplete_batch_at_the_end_is_left_out() -> None:
    data = records(0, 2)
    step = answered(FakeLog(), served(data + records(2, 3)[:-1]))
    assert isinstance(step, Append) and bytes(step.records) == data


def test_a_gap_that_compaction_has_left_is_kept() -> None:
    step = answered(FakeLog(7), served(records(9, 1)))
    assert isinstance(step, Append) and step.restart_at is None


@pytest.mark.parametrize("base", [0, 5, 6])
def test_records_that_the_follower_has_are_not_appended_twice(base: int) -> None:
    assert isinstance(answered(FakeLog(7, starts=((3, 0),)), served(records(base, 3))), Back)


def test_a_damaged_batch_is_not_appended() -> None:
    data = bytearray(records(0, 2))
    data[-1] ^= 1
    assert isinstance(answered(FakeLog(), served(bytes(data))), Back)


def test_an_empty_follower_may_begin_inside_a_batch() -> None:
    """DeleteRecords set the leader's log start into the middle of a batch."""
    step = answered(FakeLog(5, start_offset=5), served(records(3, 4), log_start=5))
    assert isinstance(step, Append) and step.restart_at == 3


# ── where two logs part ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("own", "end", "answer", "cut_at"),
    [
        (((1, 0),), 2, (1, 1), 1),  # S2: the leader's epoch ended earlier
        (((1, 0), (2, 1)), 4, (1, 2), 1),  # S3: the own epoch ended earlier
        (((3, 0),), 5, (2, 4), 0),  # S4: no epoch in common
        (((3, 0),), 5, (3, 4), 4),
        (((1, 0), (3, 4)), 6, (2, 5), 4),  # the leader knows an epoch that the follower lacks
    ],
)
def test_a_diverging_log_is_cut_where_both_epochs_part(
    own: tuple[tuple[int, int], ...], end: int, answer: tuple[int, int], cut_at: int
) -> None:
    assert answered(FakeLog(end, starts=own), diverging(*answer)) == Truncate(Offset(cut_at))


def test_a_log_is_not_cut_below_its_start() -> None:
    assert answered(FakeLog(9, start_offset=6, starts=((3, 6),)), diverging(2, 4)) == Truncate(Offset(6))


@pytest.mark.parametrize("answer", [(3, 9), (-1, -1)])
def test_a_divergence_that_contradicts_nothing_is_not_obeyed(answer: tuple[int, int]) -> None:
    assert isinstance(answered(FakeLog(5, starts=((3, 0),)), diverging(*answer)), Back)


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_follower_behind_the_leaders_log_start_begins_there() -> None:
    assert answered(FakeLog(3, starts=((1, 0),)), refused(ErrorCode.OFFSET_OUT_OF_RANGE, 8)) == StartAt(Offset(8))


def test_a_follower_without_records_begins_where_the_leader_does() -> None:
    assert answered(FakeLog(9, start_offset=9), refused(ErrorCode.OFFSET_OUT_OF_RANGE, 4)) == StartAt(Offset(4))


def test_records_are_not_removed_for_a_leader_that_begins_earlier() -> None:
    step = answered(FakeLog(9, starts=((1, 0),)), refused(ErrorCode.OFFSET_OUT_OF_RANGE, 4))
    assert isinstance(step, Back)


def test_a_fenced_follower_asks_no_more_and_waits_for_the_metadata() -> None:
    state, log = follower(), FakeLog()
    step = state.decide(asked(state, log), refused(ErrorCode.FENCED_LEADER_EPOCH), log, NOW)
    assert step == AwaitMetadata()
    assert state.ask(log, Millis(NOW + 60_000)) is None and state.deadline() is None


@pytest.mark.parametrize(
    "error",
    [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR],
)
def test_after_any_other_error_it_asks_again_after_a_pause(error: ErrorCode) -> None:
    state, log = follower(), FakeLog()
    assert isinstance(state.decide(asked(state, log), refused(error), log, NOW), Back)
    assert state.ask(log, Millis(NOW + BACKOFF_MS - 1)) is None
    asked(state, log, NOW + BACKOFF_MS)


# ── late answers ─────────────────────────────────────────────────────────────────────────────────────────


def test_no_answer_counts_for_any_request_but_the_open_one() -> None:
    """S6: a copy of the open request with any one field changed, or with none, is another request."""
    answers = [
        served(records(0, 2)),
        served(),
        diverging(1, 0),
        refused(ErrorCode.OFFSET_OUT_OF_RANGE, 8),
        refused(ErrorCode.FENCED_LEADER_EPOCH),
    ]
    changes: list[dict[str, int]] = [
        {},
        {"replica": 3},
        {"broker_epoch": 11},
        {"leader_epoch": 4},
        {"offset": 1},
        {"last_fetched_epoch": 0},
        {"log_start": 1},
    ]
    for answer, change in product(answers, changes):
        state, log = follower(), FakeLog()
        ask = asked(state, log)
        assert state.decide(replace(ask, **change), answer, log, NOW) == Ignore()  # type: ignore[arg-type]
        assert not isinstance(state.decide(ask, answer, log, NOW), Ignore), "the request is still open"


def test_an_answer_counts_once() -> None:
    state, log = follower(), FakeLog()
    ask = asked(state, log)
    assert isinstance(state.decide(ask, served(records(0, 2)), log, NOW), Append)
    assert state.decide(ask, served(records(0, 2)), log, NOW) == Ignore()


def test_an_answer_from_an_earlier_term_finds_another_state() -> None:
    old, new, log = follower(), follower(), FakeLog()
    ask = asked(old, log)
    asked(new, log)
    assert new.decide(ask, served(records(0, 2)), log, NOW) == Ignore()


def test_a_failure_of_an_earlier_request_does_not_close_the_open_one() -> None:
    state, log = follower(), FakeLog()
    first = asked(state, log)
    state.failed(first, NOW)
    second = asked(state, log, NOW + BACKOFF_MS)
    state.failed(first, NOW)
    assert isinstance(state.decide(second, served(), log, NOW), Append)
