"""The memory that connections share: large requests do not block small ones, and one address does not block others."""

# mypy: no-warn-unreachable
# mypy does not know that a call may change the state of a transport.

from __future__ import annotations

from typing import cast

import pytest

from mqcore.server.budgets import SMALL_REQUEST_BYTES_MAX
from mqcore.server.call_queue import WAITING_BYTES_MAX
from mqcore.server.connection import Connection
from mqcore.server.incoming import FIRST_BUFFER_BYTES
from mqcore.server.outgoing import READ_PIECE_BYTES, SMALL_PIECE_BYTES
from mqcore.wire.fast_primitives import Piece, size_of
from tests.unit.mqcore.server.harness import (
    ECHO,
    SILENT,
    WAIT,
    FakeTransport,
    ServerHarness,
    Slice,
    correlations,
    frame,
)

MIB = 1 << 20


def spoken(server: ServerHarness, host: str = "10.0.0.1") -> tuple[Connection, FakeTransport]:
    """A connection that has sent its first request."""
    connection, transport = server.connect(host)
    server.feed(connection, frame(ECHO, b"", 1))
    return connection, transport


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pinged_by", [frame(ECHO, b"ping"), frame(ECHO, b"ping") + b"\x00\x00"])
def test_idle_buffers_shrink_when_other_connections_need_memory(pinged_by: bytes) -> None:
    server = ServerHarness(queued_max_request_bytes=8 * MIB)
    idle = [spoken(server, f"10.0.0.{number}") for number in range(3)]
    for connection, _ in idle:
        server.feed(connection, frame(ECHO, bytes(2 * MIB)))
        server.feed(connection, pinged_by)
    assert all(connection._incoming.capacity > 2 * MIB for connection, _ in idle)
    for number in range(5):
        other, transport = spoken(server, "10.0.0.9")
        server.feed(other, frame(ECHO, bytes(MIB // 2), 7)[:-1])
        assert not transport.paused, number
    assert [connection._incoming.capacity for connection, _ in idle].count(FIRST_BUFFER_BYTES) == 1
    for still_open in list(server.limits.connections):
        still_open.connection_lost(None)
    assert server.limits.receive_budget.held == 0


def test_a_served_large_request_releases_memory_to_a_waiting_connection() -> None:
    server = ServerHarness(queued_max_request_bytes=4 * MIB)
    first, _ = spoken(server)
    sent = frame(ECHO, bytes(2 * MIB), 7)
    server.feed(first, sent[:-1])
    second, second_transport = spoken(server)
    server.feed_while_read(second, second_transport, sent)
    assert second_transport.paused
    server.feed(first, sent[-1:])
    assert not second_transport.paused and first._incoming.capacity == FIRST_BUFFER_BYTES


def test_large_requests_leave_memory_for_small_ones() -> None:
    server = ServerHarness(queued_max_request_bytes=8 * MIB)
    large = [spoken(server, f"10.0.0.{number}") for number in range(5)]
    for connection, transport in large:
        server.feed_while_read(connection, transport, frame(ECHO, bytes(2 * MIB))[:-1])
    assert [transport.paused for _, transport in large] == [False, False, False, True, True]
    small, transport = spoken(server, "10.0.0.9")
    server.feed(small, frame(ECHO, bytes(SMALL_REQUEST_BYTES_MAX - 100), 7))
    assert correlations(transport.written)[-1] == 7


def test_a_request_larger_than_the_budget_is_received_and_leaves_memory_for_small_ones() -> None:
    server = ServerHarness(queued_max_request_bytes=8 * MIB)
    giant, giant_transport = spoken(server)
    sent = frame(ECHO, bytes(12 * MIB), 7)
    server.feed(giant, sent[:-1])
    small, transport = spoken(server, "10.0.0.9")
    server.feed(small, frame(ECHO, bytes(SMALL_REQUEST_BYTES_MAX - 100), 8))
    assert correlations(transport.written)[-1] == 8
    server.feed(giant, sent[-1:])
    assert correlations(giant_transport.written)[-1] == 7


def test_every_request_that_has_begun_to_arrive_can_be_completed() -> None:
    """Otherwise each could hold memory that another one needs to complete its request."""
    server = ServerHarness(queued_max_request_bytes=8 * MIB)
    pairs = [spoken(server) for _ in range(4)]
    sent, done = frame(ECHO, bytes(4 * MIB), 7), [0] * len(pairs)
    while any(count < len(sent) for count in done):
        before = list(done)
        for at, (connection, transport) in enumerate(pairs):
            done[at] += server.feed_while_read(connection, transport, sent[done[at] : done[at] + 65536])
        assert done != before, "all of them wait for each other"
    assert all(correlations(transport.written)[-1] == 7 for _, transport in pairs)


def test_one_address_cannot_take_all_receive_memory() -> None:
    server = ServerHarness(queued_max_request_bytes=8 * MIB)
    other, other_transport = spoken(server, "10.0.0.9")
    greedy = [spoken(server) for _ in range(20)]
    for connection, transport in greedy:
        server.feed_while_read(connection, transport, frame(ECHO, bytes(MIB - 100))[:-1])
    assert sum(not transport.paused for _, transport in greedy) == 4
    server.feed(other, frame(ECHO, bytes(MIB - 100), 7))
    assert correlations(other_transport.written)[-1] == 7


def test_the_first_request_of_a_connection_has_a_lower_limit() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    server.feed(connection, frame(ECHO, bytes(MIB))[:4])
    assert transport.aborted and server.closed_connections("bad_length") == 1
    later, later_transport = spoken(server)
    server.feed(later, frame(ECHO, bytes(MIB), 7))
    assert correlations(later_transport.written)[-1] == 7


# ── responses ────────────────────────────────────────────────────────────────────────────────────


def stalled_reader(server: ServerHarness, number: int, answer: bytes) -> tuple[Connection, FakeTransport]:
    """A client that asks for `answer` and does not read."""
    connection, transport = server.connect(f"10.0.0.{number}")
    transport.room, transport.unacknowledged = 1, size_of(server.handlers.pieces[answer])
    server.feed(connection, frame(ECHO, answer, 1))
    return connection, transport


def test_above_half_of_the_send_budget_answers_are_sent_in_small_pieces() -> None:
    server = ServerHarness(queued_max_response_bytes=4 * READ_PIECE_BYTES)
    content = bytes(range(256)) * 8192  # 2 MiB
    server.handlers.pieces[b"held"] = [bytes(3 * READ_PIECE_BYTES)]
    stalled_reader(server, 1, b"held")
    piece = Slice(content)
    server.handlers.pieces[b"fetch"] = cast(list[Piece], [b"head", piece])
    connection, transport = server.connect()
    server.feed(connection, frame(ECHO, b"fetch", 1))
    assert transport.written.endswith(content) and piece.largest_read == SMALL_PIECE_BYTES


def test_when_unread_answers_exceed_their_budget_the_largest_holder_is_closed() -> None:
    server = ServerHarness(queued_max_response_bytes=4 * MIB + 1024)
    server.handlers.pieces = {b"one": [bytes(MIB)], b"two": [bytes(2 * MIB)], b"three": [bytes(3 * MIB)]}
    small, small_transport = stalled_reader(server, 1, b"one")
    _, large_transport = stalled_reader(server, 2, b"two")
    assert server.limits.send_budget.held // MIB == 3
    server.clock.advance(2 * 1000)
    reading, reading_transport = server.connect("10.0.0.3")
    server.feed(reading, frame(ECHO, b"three", 1))
    assert not reading_transport.aborted and correlations(reading_transport.written) == [1]
    stalled_reader(server, 4, b"three")
    assert (small_transport.aborted, large_transport.aborted) == (False, True)
    assert server.closed_connections("unread_responses") == 1 and server.limits.send_budget.held // MIB == 4
    for connection in list(server.limits.connections):
        connection.connection_lost(None)
    assert server.limits.send_budget.held == 0 and small not in server.limits.connections


def test_pipelined_large_answers_are_limited_to_about_a_megabyte_per_turn() -> None:
    server = ServerHarness()
    server.handlers.pieces[b"big"] = [bytes(60_000)]
    connection, _ = server.connect()
    server.feed_in_one_turn(connection, frame(ECHO, b"big") * 30)
    assert len(server.handlers.requests) * 60_000 <= WAITING_BYTES_MAX + 2 * 60_000


def test_slow_requests_of_one_client_run_one_per_turn() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    served = server.apis[WAIT]

    def slow(request: bytes, call: object) -> object:
        server.clock.advance(int(0.04 * 1000))
        return served.handle(request, call)

    server.apis[WAIT] = served._replace(handle=slow)
    server.feed_in_one_turn(connection, b"".join(frame(WAIT, b"", number) for number in range(10)))
    assert len(server.handlers.waiting) == 1 and transport.paused


def test_sent_answers_no_longer_count() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    server.handlers.pieces[b"fetch"] = cast(list[Piece], [b"head", Slice(bytes(100)), b"tail"])
    server.feed(connection, frame(ECHO, b"one", 1) + frame(ECHO, b"fetch", 2) + frame(SILENT) + frame(WAIT, b"", 3))
    assert correlations(transport.written) == [1, 2] and server.limits.send_budget.held == 0
    server.answer(0, [b"three"])
    assert server.limits.send_budget.held == 0
