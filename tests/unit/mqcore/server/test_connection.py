"""One connection: frames however they are cut, answers in order, bounds on all that a stranger can cause."""

# mypy: no-warn-unreachable
# A transport changes its state behind the checker's back.

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from mqcore.server import connection as module
from mqcore.server.connection import FRAMES_A_TURN
from mqcore.server.incoming import FIRST_BUFFER
from mqcore.server.outgoing import READ_PIECE
from mqcore.wire.hot import Piece
from tests.unit.mqcore.server.stage import (
    BREAK,
    ECHO,
    HANG_UP,
    PARK,
    SILENT,
    FakeTime,
    Slice,
    Stage,
    answers,
    correlations,
    fake_time,
    feed,
    frame,
)

__all__ = ["fake_time"]


def on_a_loop(act: Callable[[], None]) -> None:
    """Run it where `call_soon` works, and what it put off after it."""

    async def main() -> None:
        act()
        for _ in range(5):
            await asyncio.sleep(0)

    asyncio.run(main())


# ── frames ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("cut", range(1, 60))
def test_frames_may_be_cut_at_every_byte(cut: int) -> None:
    stage = Stage()
    connection, transport = stage.connect()
    sent = frame(ECHO, b"one", 1) + frame(ECHO, b"", 2) + frame(ECHO, b"three", 3)
    feed(connection, sent[:cut])
    feed(connection, sent[cut:])
    assert answers(transport.written) == [(1, b"one"), (2, b""), (3, b"three")]


def test_frames_may_come_byte_by_byte() -> None:
    stage = Stage()
    connection, transport = stage.connect()
    feed(connection, frame(ECHO, b"one", 1) + frame(ECHO, b"two", 2), at_most=1)
    assert answers(transport.written) == [(1, b"one"), (2, b"two")]


@pytest.mark.parametrize("size", [FIRST_BUFFER - 14, FIRST_BUFFER, 3 * FIRST_BUFFER + 1, 1_000_000])
def test_a_frame_larger_than_the_buffer_makes_it_grow(size: int) -> None:
    stage = Stage()
    connection, transport = stage.connect()
    body = bytes(range(256)) * (size // 256 + 1)
    feed(connection, frame(ECHO, b"before", 1) + frame(ECHO, body, 2) + frame(ECHO, b"after", 3), at_most=7000)
    assert answers(transport.written) == [(1, b"before"), (2, body), (3, b"after")]


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 7, 2**31 - 1, 104857601])
def test_an_impossible_length_closes_the_connection_before_anything_is_allocated(size: int) -> None:
    stage = Stage()
    connection, transport = stage.connect()
    feed(connection, frame(ECHO, b"good", 1) + struct.pack(">i", size))
    assert transport.aborted and stage.bad("bad_length") == 1
    assert connection._incoming.capacity == FIRST_BUFFER


def test_a_buffer_grows_with_what_has_arrived_and_not_with_what_was_promised() -> None:
    stage = Stage()
    connection, _ = stage.connect()
    feed(connection, frame(ECHO) + struct.pack(">i", 100_000_000) + bytes(100))
    assert connection._incoming.capacity == FIRST_BUFFER
    feed(connection, bytes(50_000))
    assert connection._incoming.capacity <= 4 * 50_000


def test_a_request_nobody_serves_closes_the_connection() -> None:
    stage = Stage()
    connection, transport = stage.connect()
    feed(connection, frame(77, b"", 1))
    assert transport.aborted and stage.bad("bad_request") == 1


def test_a_handler_that_fails_costs_its_connection_and_no_other() -> None:
    stage = Stage()
    connection, transport = stage.connect()
    other, other_transport = stage.connect()
    feed(connection, frame(BREAK))
    assert transport.aborted
    feed(other, frame(ECHO, b"fine", 1))
    assert answers(other_transport.written) == [(1, b"fine")]


def test_nothing_is_served_behind_a_refused_frame() -> None:
    stage = Stage()
    connection, _ = stage.connect()
    feed(connection, frame(77) + frame(ECHO, b"late"))
    connection.connection_lost(None)
    assert stage.desk.seen == []


# ── order ────────────────────────────────────────────────────────────────────────────────────────


def test_answers_wait_for_those_before_them() -> None:
    stage = Stage()
    connection, transport = stage.connect()
    feed(connection, frame(ECHO, b"a", 1) + frame(PARK, b"", 2) + frame(ECHO, b"c", 3) + frame(PARK, b"", 4))
    assert correlations(transport.written) == [1]
    first, second = stage.desk.parked
    second.answer([b"d"])
    assert correlations(transport.written) == [1]
    first.answer([b"b"])
    assert answers(transport.written) == [(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d")]


def test_a_request_without_an_answer_leaves_no_gap() -> None:
    stage = Stage()
    connection, transport = stage.connect()
    feed(connection, frame(PARK, b"", 1) + frame(SILENT, b"", 2) + frame(ECHO, b"c", 3))
    assert transport.written == b""
    stage.desk.parked[0].answer([b"a"])
    assert correlations(transport.written) == [1, 3]


def test_who_hangs_up_does_so_after_the_earlier_answers_and_serves_nothing_more() -> None:
    stage = Stage()
    connection, transport = stage.connect()
    feed(connection, frame(PARK, b"", 1) + frame(HANG_UP, b"", 2) + frame(ECHO, b"c", 3))
    assert not transport.closed and transport.paused
    stage.desk.parked[0].answer([b"a"])
    assert correlations(transport.written) == [1] and transport.closed
    assert len(stage.desk.seen) == 2


def test_who_waits_is_told_that_the_client_is_gone_and_may_answer_anyway() -> None:
    stage = Stage()
    connection, transport = stage.connect()
    feed(connection, frame(PARK, b"", 1) + frame(PARK, b"", 2) + frame(PARK, b"", 3))
    told: list[int] = []
    for number, call in enumerate(stage.desk.parked):
        call.when_gone = partial(told.append, number)
    stage.desk.parked[1].answer([b"answered already"])
    connection.connection_lost(None)
    assert told == [0, 2]
    stage.desk.parked[0].answer([b"too late"])
    assert transport.written == b""


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────


def test_a_client_that_pipelines_without_end_is_not_read_while_its_requests_wait() -> None:
    stage = Stage(queued_max_requests=10)
    connection, transport = stage.connect()

    def act() -> None:
        feed(connection, b"".join(frame(PARK, b"", number) for number in range(50)))
        assert transport.paused and len(stage.desk.parked) == 10
        for number in range(50):
            stage.desk.parked[number].answer([])
            connection._read_frames()  # what was put off until the loop turns
        assert not transport.paused

    on_a_loop(act)
    assert list(correlations(transport.written)) == list(range(50))


def test_large_requests_that_wait_count_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING_BYTES", 1000)
    stage = Stage()
    connection, transport = stage.connect()
    feed(connection, frame(PARK, bytes(600)))
    assert not transport.paused
    feed(connection, frame(PARK, bytes(600)))
    assert transport.paused
    on_a_loop(lambda: stage.desk.parked[0].answer([]))
    assert not transport.paused
    on_a_loop(lambda: stage.desk.parked[1].answer([]))
    assert connection._waiting_bytes == 0 == stage.traffic.waiting_bytes


def test_answers_that_wait_behind_a_parked_one_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING_BYTES", 1000)
    stage = Stage()
    connection, transport = stage.connect()
    stage.desk.pieces[b"big"] = [bytes(5000)]
    feed(connection, frame(PARK) + frame(ECHO, b"big"))
    assert transport.paused
    connection.connection_lost(None)
    assert stage.traffic.waiting_bytes == 0


def test_when_all_together_hold_too_much_each_connection_may_have_one_request_waiting() -> None:
    stage = Stage(queued_max_request_bytes=4000)
    first, first_transport = stage.connect()
    second, second_transport = stage.connect()
    feed(first, frame(PARK, bytes(1200)))
    assert first_transport.paused
    feed(second, frame(ECHO, b"served", 1))
    assert not second_transport.paused and correlations(second_transport.written) == [1]
    feed(second, frame(PARK))
    assert second_transport.paused
    on_a_loop(lambda: stage.desk.parked[0].answer([]))
    assert not first_transport.paused


def test_a_reader_that_does_not_read_is_served_nothing_more() -> None:
    stage = Stage()
    connection, transport = stage.connect()
    transport.room = 10

    def act() -> None:
        feed(connection, frame(ECHO, b"x" * 20, 1) + frame(ECHO, b"y", 2))
        assert correlations(transport.written) == [1] and transport.paused
        transport.room = None
        connection.resume_writing()

    on_a_loop(act)
    assert correlations(transport.written) == [1, 2] and not transport.paused


def test_slices_of_logs_are_read_piece_by_piece_as_the_socket_takes_them() -> None:
    stage = Stage()
    connection, transport = stage.connect()
    content = bytes(range(256)) * 8192  # 2 MiB
    piece = Slice(content)
    stage.desk.pieces[b"fetch"] = cast(list[Piece], [b"head", piece, b"tail"])
    transport.room = 1
    feed(connection, frame(ECHO, b"fetch", 1))
    assert (
        len(transport.written) <= READ_PIECE + len(b"head") + 8
    )  # one piece leaves with the head, and nothing more is read
    rounds = 0
    while not answers(transport.written):
        transport.room = READ_PIECE
        on_a_loop(connection.resume_writing)
        rounds += 1
    assert answers(transport.written) == [(1, b"head" + content + b"tail")]
    assert piece.largest_read <= READ_PIECE and rounds >= len(content) // READ_PIECE - 1


def test_answers_of_one_turn_leave_in_one_write() -> None:
    turns: list[Callable[[], None]] = []
    stage = Stage(call_soon=turns.append)
    connection, transport = stage.connect()
    feed(connection, frame(ECHO, b"a", 1) + frame(ECHO, b"b", 2))
    assert not transport.written
    (end_of_turn,) = turns
    end_of_turn()
    assert correlations(transport.written) == [1, 2] and transport.writes == 1


def test_who_sends_without_end_lets_others_have_their_turn() -> None:
    turns: list[Callable[[], None]] = []
    stage = Stage(call_soon=turns.append)
    connection, transport = stage.connect()
    feed(connection, b"".join(frame(ECHO, b"x", number) for number in range(FRAMES_A_TURN + 5)))
    assert len(stage.desk.seen) == FRAMES_A_TURN and transport.paused
    turns.pop()()
    assert len(answers(transport.written)) == FRAMES_A_TURN and not transport.paused
    turns.pop()()
    assert correlations(transport.written) == list(range(FRAMES_A_TURN + 5))


def test_an_answer_that_cannot_be_sent_costs_its_connection_and_no_other() -> None:
    turns: list[Callable[[], None]] = []
    stage = Stage(call_soon=turns.append)
    bad, bad_transport = stage.connect()
    good, good_transport = stage.connect()
    feed(bad, frame(ECHO, b"fine", 1))
    feed(good, frame(ECHO, b"fine", 1))
    bad._sending.add(cast(list[Piece], [None]))
    turns.pop()()
    assert bad_transport.aborted and correlations(good_transport.written) == [1]


def test_an_answered_call_lets_go_of_its_handler() -> None:
    stage = Stage()
    connection, _ = stage.connect()
    feed(connection, frame(PARK, b"", 1))
    (call,) = stage.desk.parked
    call.when_gone = call.hang_up  # a cycle: without this the collector would run again and again
    call.answer([b"a"])
    assert call.when_gone is None


def test_a_slice_that_is_shorter_than_promised_ends_the_connection() -> None:
    stage = Stage()
    connection, transport = stage.connect()
    piece = Slice(b"x" * 100)
    piece.missing = 1
    stage.desk.pieces[b"fetch"] = cast(list[Piece], [b"head", piece])
    feed(connection, frame(ECHO, b"fetch", 1))
    assert transport.aborted


def test_memory_for_half_received_frames_is_shared_and_given_back() -> None:
    stage = Stage(queued_max_request_bytes=80_000)
    first, _ = stage.connect()
    second, second_transport = stage.connect()
    feed(first, frame(ECHO, bytes(90_000))[:80_000])
    sent = frame(ECHO, bytes(60_000), 7)
    feed(second, sent[:FIRST_BUFFER])
    assert second_transport.paused  # starving
    first.connection_lost(None)
    assert not second_transport.paused
    feed(second, sent[FIRST_BUFFER:])
    assert correlations(second_transport.written) == [7]
    second.connection_lost(None)
    assert stage.traffic.receive_budget.held == 0 == stage.traffic.receive_budget.starving


def test_two_that_starve_for_more_than_there_is_do_not_turn_in_circles() -> None:
    stage = Stage(queued_max_request_bytes=60_000)
    holder, _ = stage.connect()
    others = [stage.connect() for _ in range(2)]
    feed(holder, frame(ECHO, bytes(64_000))[:50_000])
    for connection, _ in others:
        feed(connection, frame(ECHO, bytes(1_000_000))[:FIRST_BUFFER])
    holder.connection_lost(None)
    assert all(not transport.aborted for _, transport in others)


def test_an_idle_buffer_shrinks() -> None:
    stage = Stage()
    connection, transport = stage.connect()
    feed(connection, frame(ECHO, bytes(500_000), 1))
    assert connection._incoming.capacity > FIRST_BUFFER
    connection.shrink()
    assert connection._incoming.capacity == FIRST_BUFFER and stage.traffic.receive_budget.held == 0
    feed(connection, frame(ECHO, b"still there", 2))
    assert correlations(transport.written) == [1, 2]


# ── time ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_idle_connection_is_overdue_but_not_one_that_waits(fake_time: FakeTime) -> None:
    stage = Stage(connections_max_idle_ms=10_000)
    idle, _ = stage.connect()
    waiting, _ = stage.connect()
    feed(idle, frame(ECHO))
    feed(waiting, frame(PARK))
    assert idle.overdue(fake_time.now + 9.9) is None
    assert idle.overdue(fake_time.now + 10.1) == "idle"
    assert waiting.overdue(fake_time.now + 10.1) is None


def test_a_request_that_arrives_too_slowly_is_overdue_however_steadily_it_drips(fake_time: FakeTime) -> None:
    stage = Stage(request_receive_timeout_ms=5_000)
    connection, _ = stage.connect()
    sent = frame(ECHO, bytes(100))
    for byte in sent[:6]:
        feed(connection, bytes([byte]))
        fake_time.now += 1
    assert connection.overdue(fake_time.now) == "slow_request"


def test_the_next_request_has_a_time_of_its_own(fake_time: FakeTime) -> None:
    stage = Stage(request_receive_timeout_ms=5_000)
    connection, _ = stage.connect()
    sent = frame(ECHO, b"x")
    for _ in range(4):
        feed(connection, sent[:6])
        fake_time.now += 4
        assert connection.overdue(fake_time.now) is None
        feed(connection, sent[6:])
    assert connection.overdue(fake_time.now + 6) is None


def test_time_that_a_client_was_kept_waiting_is_not_held_against_it(fake_time: FakeTime) -> None:
    stage = Stage(request_receive_timeout_ms=5_000, queued_max_requests=1)
    connection, transport = stage.connect()
    feed(connection, frame(PARK) + frame(ECHO, b"x")[:6])
    assert transport.paused
    fake_time.now += 60
    assert connection.overdue(fake_time.now) is None
    on_a_loop(lambda: stage.desk.parked[0].answer([]))
    assert connection.overdue(fake_time.now) is None


def test_who_starves_too_long_is_let_go(fake_time: FakeTime) -> None:
    stage = Stage(request_receive_timeout_ms=5_000, queued_max_request_bytes=50_000)
    first, _ = stage.connect()
    second, transport = stage.connect()
    feed(first, frame(ECHO, bytes(90_000))[:50_000])
    feed(second, frame(ECHO, bytes(90_000))[:FIRST_BUFFER])
    assert transport.paused
    assert second.overdue(fake_time.now + 6) == "slow_request"


def test_a_reader_that_takes_nothing_is_overdue(fake_time: FakeTime) -> None:
    stage = Stage(response_send_timeout_ms=5_000)
    connection, transport = stage.connect()
    transport.room = 1
    feed(connection, frame(ECHO, b"x" * 100))
    assert connection.overdue(fake_time.now + 4) is None
    assert connection.overdue(fake_time.now + 6) == "slow_reader"
    transport.room = None
    on_a_loop(connection.resume_writing)
    assert connection.overdue(fake_time.now + 6) is None


def test_a_reader_that_takes_a_little_again_and_again_is_not_overdue(fake_time: FakeTime) -> None:
    stage = Stage(response_send_timeout_ms=5_000)
    connection, transport = stage.connect()
    transport.room, transport.untaken = 1, 1000
    feed(connection, frame(ECHO, b"x" * 1000))
    for _ in range(10):
        fake_time.now += 4
        transport.untaken -= 1
        assert connection.overdue(fake_time.now) is None
    fake_time.now += 6
    assert connection.overdue(fake_time.now) == "slow_reader"


# ── the end ──────────────────────────────────────────────────────────────────────────────────────


def test_at_the_end_what_was_asked_is_answered_and_nothing_else_is_read() -> None:
    stage = Stage()
    busy, busy_transport = stage.connect()
    _, idle_transport = stage.connect()
    feed(busy, frame(PARK, b"", 1))
    stage.traffic.end()
    assert idle_transport.closed and not busy_transport.closed and busy_transport.paused
    stage.desk.parked[0].answer([b"x"])
    assert correlations(busy_transport.written) == [1] and busy_transport.closed
    _, late = stage.connect()
    assert late.aborted


def test_who_does_not_read_holds_up_the_end_only_for_so_long() -> None:
    stage = Stage()
    connection, transport = stage.connect()
    feed(connection, frame(PARK))
    stage.traffic.end()
    asyncio.run(stage.traffic.drain(0.02))
    assert transport.aborted


def test_what_was_produced_is_in_the_log_and_does_not_count_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING_BYTES", 1000)
    stage = Stage()
    stage.be_produce(PARK)
    connection, transport = stage.connect()
    feed(connection, frame(PARK, bytes(5000)) + frame(PARK, bytes(5000)))
    assert not transport.paused and len(stage.desk.parked) == 2
