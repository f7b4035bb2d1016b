"""Memory that connections share: large requests cannot keep out small ones, nor one address the others."""

# mypy: no-warn-unreachable
# A transport changes its state behind the checker's back.

from __future__ import annotations

from typing import cast

import pytest

from mqcore.server.budgets import SMALL_REQUEST_BYTES
from mqcore.server.connection import MOST_WAITING_BYTES, Connection
from mqcore.server.incoming import FIRST_BUFFER
from mqcore.server.outgoing import READ_PIECE, SMALL
from mqcore.wire.hot import Piece, size_of
from tests.unit.mqcore.server.stage import (
    ECHO,
    PARK,
    SILENT,
    FakeTime,
    FakeTransport,
    Slice,
    Stage,
    correlations,
    fake_time,
    feed,
    frame,
)

__all__ = ["fake_time"]

MIB = 1 << 20


def spoken(stage: Stage, host: str = "10.0.0.1") -> tuple[Connection, FakeTransport]:
    """A connection whose first request is behind it."""
    connection, transport = stage.connect(host)
    feed(connection, frame(ECHO, b"", 1))
    return connection, transport


def feed_part(connection: Connection, transport: FakeTransport, data: bytes) -> int:
    """As much as the connection takes."""
    sent = 0
    while sent < len(data) and not transport.paused and not transport.aborted:
        view = connection.get_buffer(-1)
        count = min(len(view), len(data) - sent)
        view[:count] = data[sent : sent + count]
        connection.buffer_updated(count)
        sent += count
    return sent


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pinged_by", [frame(ECHO, b"ping"), frame(ECHO, b"ping") + b"\x00\x00"])
def test_idle_buffers_of_large_requests_are_taken_back_when_others_need_memory(pinged_by: bytes) -> None:
    stage = Stage(queued_max_request_bytes=8 * MIB)
    idle = [spoken(stage, f"10.0.0.{number}") for number in range(3)]
    for connection, _ in idle:
        feed(connection, frame(ECHO, bytes(2 * MIB)))
        feed(connection, pinged_by)
    assert all(connection._incoming.capacity > 2 * MIB for connection, _ in idle)
    for number in range(5):
        other, transport = spoken(stage, "10.0.0.9")
        feed(other, frame(ECHO, bytes(MIB // 2), 7)[:-1])
        assert not transport.paused, number
    assert [connection._incoming.capacity for connection, _ in idle].count(FIRST_BUFFER) == 1
    for connection in list(stage.traffic.connections):
        connection.connection_lost(None)
    assert stage.traffic.receive_budget.held == 0


def test_a_large_request_that_was_served_gives_its_memory_to_those_that_wait() -> None:
    stage = Stage(queued_max_request_bytes=4 * MIB)
    first, _ = spoken(stage)
    sent = frame(ECHO, bytes(2 * MIB), 7)
    feed(first, sent[:-1])
    second, second_transport = spoken(stage)
    feed_part(second, second_transport, sent)
    assert second_transport.paused
    feed(first, sent[-1:])
    assert not second_transport.paused and first._incoming.capacity == FIRST_BUFFER


def test_large_requests_leave_room_for_small_ones() -> None:
    stage = Stage(queued_max_request_bytes=8 * MIB)
    large = [spoken(stage, f"10.0.0.{number}") for number in range(5)]
    for connection, transport in large:
        feed_part(connection, transport, frame(ECHO, bytes(2 * MIB))[:-1])
    assert [transport.paused for _, transport in large] == [False, False, False, True, True]
    small, transport = spoken(stage, "10.0.0.9")
    feed(small, frame(ECHO, bytes(SMALL_REQUEST_BYTES - 100), 7))
    assert correlations(transport.written)[-1] == 7


def test_a_request_larger_than_the_budget_is_received_and_still_leaves_room_for_small_ones() -> None:
    stage = Stage(queued_max_request_bytes=8 * MIB)
    giant, giant_transport = spoken(stage)
    sent = frame(ECHO, bytes(12 * MIB), 7)
    feed(giant, sent[:-1])
    small, transport = spoken(stage, "10.0.0.9")
    feed(small, frame(ECHO, bytes(SMALL_REQUEST_BYTES - 100), 8))
    assert correlations(transport.written)[-1] == 8
    feed(giant, sent[-1:])
    assert correlations(giant_transport.written)[-1] == 7


def test_requests_that_have_begun_to_arrive_can_all_be_completed() -> None:
    """None may hold a part of the memory that another one needs to get to its end."""
    stage = Stage(queued_max_request_bytes=8 * MIB)
    pairs = [spoken(stage) for _ in range(4)]
    sent, done = frame(ECHO, bytes(4 * MIB), 7), [0] * len(pairs)
    while any(count < len(sent) for count in done):
        before = list(done)
        for at, (connection, transport) in enumerate(pairs):
            done[at] += feed_part(connection, transport, sent[done[at] : done[at] + 65536])
        assert done != before, "all of them wait for each other"
    assert all(correlations(transport.written)[-1] == 7 for _, transport in pairs)


def test_one_address_cannot_take_all_memory_for_requests() -> None:
    stage = Stage(queued_max_request_bytes=8 * MIB)
    other, other_transport = spoken(stage, "10.0.0.9")
    greedy = [spoken(stage) for _ in range(20)]
    for connection, transport in greedy:
        feed_part(connection, transport, frame(ECHO, bytes(MIB - 100))[:-1])
    assert sum(not transport.paused for _, transport in greedy) == 4
    feed(other, frame(ECHO, bytes(MIB - 100), 7))
    assert correlations(other_transport.written)[-1] == 7


def test_the_first_request_of_a_connection_is_small() -> None:
    stage = Stage()
    connection, transport = stage.connect()
    feed(connection, frame(ECHO, bytes(MIB))[:4])
    assert transport.aborted and stage.bad("bad_length") == 1
    later, later_transport = spoken(stage)
    feed(later, frame(ECHO, bytes(MIB), 7))
    assert correlations(later_transport.written)[-1] == 7


# ── responses ────────────────────────────────────────────────────────────────────────────────────


def stalled_reader(stage: Stage, number: int, answer: bytes) -> tuple[Connection, FakeTransport]:
    """A client that asks for `answer` and does not read."""
    connection, transport = stage.connect(f"10.0.0.{number}")
    transport.room, transport.untaken = 1, size_of(stage.desk.pieces[answer])
    feed(connection, frame(ECHO, answer, 1))
    return connection, transport


def test_above_half_of_the_budget_a_reader_gets_small_pieces_and_still_gets_all() -> None:
    stage = Stage(queued_max_response_bytes=4 * READ_PIECE)
    content = bytes(range(256)) * 8192  # 2 MiB
    stage.desk.pieces[b"held"] = [bytes(3 * READ_PIECE)]
    stalled_reader(stage, 1, b"held")
    piece = Slice(content)
    stage.desk.pieces[b"fetch"] = cast(list[Piece], [b"head", piece])
    connection, transport = stage.connect()
    feed(connection, frame(ECHO, b"fetch", 1))
    assert transport.written.endswith(content) and piece.largest_read == SMALL


def test_the_reader_that_holds_most_is_closed_when_responses_fill_their_memory(fake_time: FakeTime) -> None:
    stage = Stage(queued_max_response_bytes=4 * MIB + 1024)
    stage.desk.pieces = {b"one": [bytes(MIB)], b"two": [bytes(2 * MIB)], b"three": [bytes(3 * MIB)]}
    small, small_transport = stalled_reader(stage, 1, b"one")
    _, large_transport = stalled_reader(stage, 2, b"two")
    assert stage.traffic.send_budget.held // MIB == 3
    fake_time.now += 2
    reading, reading_transport = stage.connect("10.0.0.3")
    feed(reading, frame(ECHO, b"three", 1))
    assert not reading_transport.aborted and correlations(reading_transport.written) == [1]
    stalled_reader(stage, 4, b"three")
    assert (small_transport.aborted, large_transport.aborted) == (False, True)
    assert stage.bad("unread_responses") == 1 and stage.traffic.send_budget.held // MIB == 4
    for connection in list(stage.traffic.connections):
        connection.connection_lost(None)
    assert stage.traffic.send_budget.held == 0 and small not in stage.traffic.connections


def test_a_client_that_pipelines_large_answers_gets_about_a_megabyte_of_them_in_a_turn() -> None:
    turns: list[object] = []
    stage = Stage(call_soon=turns.append)
    stage.desk.pieces[b"big"] = [bytes(60_000)]
    connection, _ = stage.connect()
    feed(connection, frame(ECHO, b"big") * 30)
    assert len(stage.desk.seen) * 60_000 <= MOST_WAITING_BYTES + 2 * 60_000


def test_a_client_whose_requests_take_long_gets_one_of_them_in_a_turn(fake_time: FakeTime) -> None:
    turns: list[object] = []
    stage = Stage(call_soon=turns.append)
    connection, transport = stage.connect()
    served = stage.traffic.table[PARK]

    def slow(request: bytes, call: object) -> object:
        fake_time.now += 0.04
        return served.handle(request, call)

    stage.traffic.table[PARK] = served._replace(handle=slow)
    feed(connection, b"".join(frame(PARK, b"", number) for number in range(10)))
    assert len(stage.desk.parked) == 1 and transport.paused


def test_what_was_sent_is_not_counted_any_more() -> None:
    stage = Stage()
    connection, transport = stage.connect()
    stage.desk.pieces[b"fetch"] = cast(list[Piece], [b"head", Slice(bytes(100)), b"tail"])
    feed(connection, frame(ECHO, b"one", 1) + frame(ECHO, b"fetch", 2) + frame(SILENT) + frame(PARK, b"", 3))
    assert correlations(transport.written) == [1, 2] and stage.traffic.send_budget.held == 0
    stage.desk.parked[0].answer([b"three"])
    assert stage.traffic.send_budget.held == 0
