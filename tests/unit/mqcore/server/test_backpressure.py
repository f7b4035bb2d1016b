"""What one connection may occupy: waiting requests, turns of the loop, unread answers and receive memory."""

# mypy: no-warn-unreachable
# mypy does not know that a call may change the state of a transport.

from __future__ import annotations

import random
from typing import cast

import pytest

from mqcore.server import call_queue
from mqcore.server.backpressure import Reason
from mqcore.server.connection import FRAMES_PER_TURN_MAX, Connection
from mqcore.server.incoming import FIRST_BUFFER_BYTES
from mqcore.server.outgoing import READ_PIECE_BYTES
from mqcore.wire.fast_primitives import Piece
from tests.unit.mqcore.server.harness import ECHO, SILENT, WAIT, ServerHarness, Slice, answers, correlations, frame


def test_a_client_is_not_read_while_queued_max_requests_of_it_wait() -> None:
    server = ServerHarness(queued_max_requests=10)
    connection, transport = server.connect()
    server.feed_in_one_turn(connection, b"".join(frame(WAIT, b"", number) for number in range(50)))
    assert transport.paused and len(server.handlers.waiting) == 10
    for number in range(50):
        server.answer(number)
    assert not transport.paused
    assert correlations(transport.written) == list(range(50))


def test_waiting_requests_are_limited_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_queue, "WAITING_BYTES_MAX", 1000)
    server = ServerHarness()
    connection, transport = server.connect()
    server.feed(connection, frame(WAIT, bytes(600)))
    assert not transport.paused
    server.feed(connection, frame(WAIT, bytes(600)))
    assert transport.paused
    server.answer(0, [])
    assert not transport.paused
    server.answer(1, [])
    assert connection._calls.waiting_bytes == 0 == server.limits.waiting_bytes


def test_answers_queued_behind_a_waiting_request_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_queue, "WAITING_BYTES_MAX", 1000)
    server = ServerHarness()
    connection, transport = server.connect()
    server.handlers.pieces[b"big"] = [bytes(5000)]
    server.feed(connection, frame(WAIT) + frame(ECHO, b"big"))
    assert transport.paused
    connection.connection_lost(None)
    assert server.limits.waiting_bytes == 0


def test_when_all_connections_hold_too_much_each_may_have_one_waiting_request() -> None:
    server = ServerHarness(queued_max_request_bytes=4000)
    first, first_transport = server.connect()
    second, second_transport = server.connect()
    server.feed(first, frame(WAIT, bytes(1200)))
    assert first_transport.paused
    server.feed(second, frame(ECHO, b"served", 1))
    assert not second_transport.paused and correlations(second_transport.written) == [1]
    server.feed(second, frame(WAIT))
    assert second_transport.paused
    server.answer(0, [])
    assert not first_transport.paused


def test_a_client_that_does_not_read_its_answers_is_not_served() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    transport.room = 10
    server.feed_in_one_turn(connection, frame(ECHO, b"x" * 20, 1))
    server.clock.run_turns()
    assert correlations(transport.written) == [1] and transport.paused
    transport.room = None
    server.resume_writing(connection)
    server.feed(connection, frame(ECHO, b"y", 2))
    assert correlations(transport.written) == [1, 2] and not transport.paused


def test_a_slice_of_a_log_is_read_piece_by_piece_as_the_socket_takes_it() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    content = bytes(range(256)) * 8192  # 2 MiB
    piece = Slice(content)
    server.handlers.pieces[b"fetch"] = cast(list[Piece], [b"head", piece, b"tail"])
    transport.room = 1
    server.feed(connection, frame(ECHO, b"fetch", 1))
    assert (
        len(transport.written) <= READ_PIECE_BYTES + len(b"head") + 8
    )  # one piece is sent with the head, and nothing more is read
    rounds = 0
    while not answers(transport.written):
        transport.room = READ_PIECE_BYTES
        server.resume_writing(connection)
        rounds += 1
    assert answers(transport.written) == [(1, b"head" + content + b"tail")]
    assert piece.largest_read <= READ_PIECE_BYTES and rounds >= len(content) // READ_PIECE_BYTES - 1


def test_answers_of_one_turn_are_sent_in_one_write() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    server.feed_in_one_turn(connection, frame(ECHO, b"a", 1) + frame(ECHO, b"b", 2))
    assert not transport.written
    server.clock.end_turn()
    assert correlations(transport.written) == [1, 2] and transport.writes == 1


def test_a_client_that_never_stops_sending_yields_each_turn() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    requests = [frame(ECHO, b"x", number) for number in range(FRAMES_PER_TURN_MAX + 5)]
    server.feed_in_one_turn(connection, b"".join(requests))
    assert len(server.handlers.requests) == FRAMES_PER_TURN_MAX and transport.paused
    server.clock.end_turn()
    assert len(answers(transport.written)) == FRAMES_PER_TURN_MAX and not transport.paused
    server.clock.end_turn()
    assert correlations(transport.written) == list(range(len(requests)))


def test_an_answer_that_cannot_be_sent_closes_only_its_connection() -> None:
    server = ServerHarness()
    bad, bad_transport = server.connect()
    good, good_transport = server.connect()
    server.feed_in_one_turn(bad, frame(ECHO, b"fine", 1))
    server.feed_in_one_turn(good, frame(ECHO, b"fine", 1))
    bad._sending.add(cast(list[Piece], [None]))
    server.clock.end_turn()
    assert bad_transport.aborted and correlations(good_transport.written) == [1]


def test_an_answered_call_drops_its_reference_to_the_handler() -> None:
    server = ServerHarness()
    connection, _ = server.connect()
    server.feed(connection, frame(WAIT, b"", 1))
    (call,) = server.handlers.waiting
    call.when_gone = call.hang_up  # a cycle that only the garbage collector could free
    call.answer([b"a"])
    assert call.when_gone is None


def test_a_slice_shorter_than_announced_closes_the_connection() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    piece = Slice(b"x" * 100)
    piece.missing = 1
    server.handlers.pieces[b"fetch"] = cast(list[Piece], [b"head", piece])
    server.feed(connection, frame(ECHO, b"fetch", 1))
    assert transport.aborted


def test_memory_for_incomplete_frames_is_shared_and_released() -> None:
    server = ServerHarness(queued_max_request_bytes=80_000)
    first, _ = server.connect()
    second, second_transport = server.connect()
    server.feed(first, frame(ECHO, bytes(90_000))[:80_000])
    sent = frame(ECHO, bytes(60_000), 7)
    server.feed(second, sent[:FIRST_BUFFER_BYTES])
    assert second_transport.paused  # starving
    first.connection_lost(None)
    assert not second_transport.paused
    server.feed(second, sent[FIRST_BUFFER_BYTES:])
    assert correlations(second_transport.written) == [7]
    second.connection_lost(None)
    assert server.limits.receive_budget.held == 0 == server.limits.receive_budget.waiting


def test_two_connections_that_wait_for_more_memory_than_exists_do_not_loop() -> None:
    server = ServerHarness(queued_max_request_bytes=60_000)
    holder, _ = server.connect()
    others = [server.connect() for _ in range(2)]
    server.feed(holder, frame(ECHO, bytes(64_000))[:50_000])
    for connection, _ in others:
        server.feed(connection, frame(ECHO, bytes(1_000_000))[:FIRST_BUFFER_BYTES])
    holder.connection_lost(None)
    assert all(not transport.aborted for _, transport in others)


def test_an_idle_buffer_shrinks() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    server.feed(connection, frame(ECHO, bytes(500_000), 1))
    assert connection._incoming.capacity > FIRST_BUFFER_BYTES
    connection.shrink()
    assert connection._incoming.capacity == FIRST_BUFFER_BYTES and server.limits.receive_budget.held == 0
    server.feed(connection, frame(ECHO, b"still there", 2))
    assert correlations(transport.written) == [1, 2]


def test_waiting_produce_requests_do_not_count_because_their_records_are_in_logs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_queue, "WAITING_BYTES_MAX", 1000)
    server = ServerHarness()
    server.treat_as_produce(WAIT)
    connection, transport = server.connect()
    server.feed(connection, frame(WAIT, bytes(5000)) + frame(WAIT, bytes(5000)))
    assert not transport.paused and len(server.handlers.waiting) == 2


# ── invariants ───────────────────────────────────────────────────────────────────────────────────


def random_walk(seed: int) -> None:
    """A client and a broker do random things; after each one the invariants of the connection must hold."""
    chance = random.Random(seed)
    server = ServerHarness(queued_max_requests=4, queued_max_request_bytes=60_000)
    connection, transport = server.connect()
    neighbour, neighbour_transport = server.connect()
    for step in range(60):
        match chance.randrange(6):
            case 0 | 1:
                key = chance.choice([ECHO, ECHO, WAIT, SILENT])
                server.feed_while_read(connection, transport, frame(key, bytes(chance.choice([1, 40_000])), step))
            case 2:
                server.feed_while_read(neighbour, neighbour_transport, frame(ECHO, bytes(40_000), step))
            case 3:
                unanswered = [call for call in server.handlers.waiting if not call.is_answered]
                if unanswered:
                    chance.choice(unanswered).answer([bytes(chance.choice([1, 90_000]))])
            case 4:
                if connection._sending.stalled_since is None:
                    transport.room = 1
                else:
                    transport.room = None
                    connection.resume_writing()
            case 5:
                server.clock.run_turns()
        assert transport.paused == bool(connection._reasons)
    connection.connection_lost(None)
    neighbour.connection_lost(None)
    assert server.limits.waiting_bytes == server.limits.receive_budget.held == server.limits.send_budget.held == 0


@pytest.mark.parametrize("seed", range(30))
def test_a_connection_is_paused_exactly_while_a_reason_holds_and_releases_everything_when_closed(seed: int) -> None:
    random_walk(seed)


def test_the_random_walk_notices_a_reason_that_is_set_behind_the_back_of_apply_backpressure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Connection, "_yield_turn", lambda connection: connection._reasons.add(Reason.YIELDING))
    with pytest.raises(AssertionError):
        for seed in range(30):
            random_walk(seed)
