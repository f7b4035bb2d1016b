"""One connection: frames may arrive in any pieces, and answers leave in the order of the requests."""

# mypy: no-warn-unreachable
# mypy does not know that a call may change the state of a transport.

from __future__ import annotations

import asyncio
import struct
from functools import partial

import pytest

from mqcore.server.incoming import FIRST_BUFFER_BYTES
from tests.unit.mqcore.server.harness import (
    ECHO,
    FAIL,
    HANG_UP,
    SILENT,
    WAIT,
    ServerHarness,
    answers,
    correlations,
    frame,
)


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_frame_may_be_split_at_every_byte(cut: int) -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    sent = frame(ECHO, b"one", 1) + frame(ECHO, b"", 2) + frame(ECHO, b"three", 3)
    server.feed(connection, sent[:cut])
    server.feed(connection, sent[cut:])
    assert answers(transport.written) == [(1, b"one"), (2, b""), (3, b"three")]


def test_frames_may_arrive_byte_by_byte() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    server.feed(connection, frame(ECHO, b"one", 1) + frame(ECHO, b"two", 2), bytes_max=1)
    assert answers(transport.written) == [(1, b"one"), (2, b"two")]


@pytest.mark.parametrize("size", [FIRST_BUFFER_BYTES - 14, FIRST_BUFFER_BYTES, 3 * FIRST_BUFFER_BYTES + 1, 1_000_000])
def test_a_frame_larger_than_the_buffer_makes_it_grow(size: int) -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    body = bytes(range(256)) * (size // 256 + 1)
    server.feed(connection, frame(ECHO, b"before", 1) + frame(ECHO, body, 2) + frame(ECHO, b"after", 3), bytes_max=7000)
    assert answers(transport.written) == [(1, b"before"), (2, body), (3, b"after")]


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 7, 2**31 - 1, 104857601])
def test_an_impossible_length_closes_the_connection_before_anything_is_allocated(size: int) -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    server.feed(connection, frame(ECHO, b"good", 1) + struct.pack(">i", size))
    assert transport.aborted and server.closed_connections("bad_length") == 1
    assert connection._incoming.capacity == FIRST_BUFFER_BYTES


def test_the_buffer_grows_with_received_bytes_and_not_with_the_announced_length() -> None:
    server = ServerHarness()
    connection, _ = server.connect()
    server.feed(connection, frame(ECHO) + struct.pack(">i", 100_000_000) + bytes(100))
    assert connection._incoming.capacity == FIRST_BUFFER_BYTES
    server.feed(connection, bytes(50_000))
    assert connection._incoming.capacity <= 4 * 50_000


def test_an_unknown_api_key_closes_the_connection() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    server.feed(connection, frame(77, b"", 1))
    assert transport.aborted and server.closed_connections("bad_request") == 1


def test_an_exception_in_a_handler_closes_only_its_connection() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    other, other_transport = server.connect()
    server.feed(connection, frame(FAIL))
    assert transport.aborted
    server.feed(other, frame(ECHO, b"fine", 1))
    assert answers(other_transport.written) == [(1, b"fine")]


def test_no_request_is_served_after_a_refused_frame() -> None:
    server = ServerHarness()
    connection, _ = server.connect()
    server.feed(connection, frame(77) + frame(ECHO, b"late"))
    connection.connection_lost(None)
    assert server.handlers.requests == []


# ── order ──────────────────────────────────────────────────────────────────────────────────────────


def test_answers_are_sent_in_the_order_of_the_requests() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    server.feed(connection, frame(ECHO, b"a", 1) + frame(WAIT, b"", 2) + frame(ECHO, b"c", 3) + frame(WAIT, b"", 4))
    assert correlations(transport.written) == [1]
    server.answer(1, [b"d"])
    assert correlations(transport.written) == [1]
    server.answer(0, [b"b"])
    assert answers(transport.written) == [(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d")]


def test_a_request_without_an_answer_does_not_block_the_next_answer() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    server.feed(connection, frame(WAIT, b"", 1) + frame(SILENT, b"", 2) + frame(ECHO, b"c", 3))
    assert transport.written == b""
    server.answer(0, [b"a"])
    assert correlations(transport.written) == [1, 3]


def test_hanging_up_sends_earlier_answers_first_and_serves_nothing_more() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    server.feed(connection, frame(WAIT, b"", 1) + frame(HANG_UP, b"", 2) + frame(ECHO, b"c", 3))
    assert not transport.closed and transport.paused
    server.answer(0, [b"a"])
    assert correlations(transport.written) == [1] and transport.closed
    assert len(server.handlers.requests) == 2


def test_a_waiting_handler_learns_that_the_client_disconnected_and_a_late_answer_is_ignored() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    server.feed(connection, frame(WAIT, b"", 1) + frame(WAIT, b"", 2) + frame(WAIT, b"", 3))
    told: list[int] = []
    for number, call in enumerate(server.handlers.waiting):
        call.when_gone = partial(told.append, number)
    server.answer(1, [b"answered already"])
    connection.connection_lost(None)
    assert told == [0, 2]
    server.answer(0, [b"too late"])
    assert transport.written == b""


# ── closing ────────────────────────────────────────────────────────────────────────────────────────


def test_when_the_broker_stops_pending_requests_are_answered_and_nothing_more_is_read() -> None:
    server = ServerHarness()
    busy, busy_transport = server.connect()
    _, idle_transport = server.connect()
    server.feed(busy, frame(WAIT, b"", 1))
    server.limits.end()
    assert idle_transport.closed and not busy_transport.closed and busy_transport.paused
    server.answer(0, [b"x"])
    assert correlations(busy_transport.written) == [1] and busy_transport.closed
    _, late = server.connect()
    assert late.aborted


def test_draining_aborts_connections_after_the_timeout() -> None:
    server = ServerHarness()
    connection, transport = server.connect()
    server.feed(connection, frame(WAIT))
    server.limits.end()

    async def drain() -> float:
        started = server.clock.seconds()
        draining = asyncio.create_task(server.limits.drain(5))
        while not draining.done():
            assert not transport.aborted
            server.clock.advance(10)
            await asyncio.sleep(0)
        return server.clock.seconds() - started

    assert 5 <= asyncio.run(drain()) < 6
    assert transport.aborted
