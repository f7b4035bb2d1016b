"""When a silent, slow or unread connection is closed."""

# mypy: no-warn-unreachable
# mypy does not know that a call may change the state of a transport.

from __future__ import annotations

from mqcore.server.incoming import FIRST_BUFFER_BYTES
from tests.unit.mqcore.server.harness import ECHO, WAIT, ServerHarness, frame


def test_an_idle_connection_is_overdue_but_not_one_that_waits_for_an_answer() -> None:
    server = ServerHarness(connections_max_idle_ms=10_000)
    idle, _ = server.connect()
    waiting, _ = server.connect()
    server.feed(idle, frame(ECHO))
    server.feed(waiting, frame(WAIT))
    assert idle.overdue_reason(server.clock.seconds() + 9.9) is None
    assert idle.overdue_reason(server.clock.seconds() + 10.1) == "idle"
    assert waiting.overdue_reason(server.clock.seconds() + 10.1) is None


def test_a_request_that_arrives_too_slowly_is_overdue_even_if_bytes_keep_coming() -> None:
    server = ServerHarness(request_receive_timeout_ms=5_000)
    connection, _ = server.connect()
    sent = frame(ECHO, bytes(100))
    for byte in sent[:6]:
        server.feed(connection, bytes([byte]))
        server.clock.advance(1 * 1000)
    assert connection.overdue_reason(server.clock.seconds()) == "slow_request"


def test_each_request_has_its_own_receive_timeout() -> None:
    server = ServerHarness(request_receive_timeout_ms=5_000)
    connection, _ = server.connect()
    sent = frame(ECHO, b"x")
    for _ in range(4):
        server.feed(connection, sent[:6])
        server.clock.advance(4 * 1000)
        assert connection.overdue_reason(server.clock.seconds()) is None
        server.feed(connection, sent[6:])
    assert connection.overdue_reason(server.clock.seconds() + 6) is None


def test_the_receive_timeout_does_not_count_time_the_broker_did_not_read() -> None:
    server = ServerHarness(request_receive_timeout_ms=5_000, queued_max_requests=1)
    connection, transport = server.connect()
    server.feed(connection, frame(WAIT) + frame(ECHO, b"x")[:6])
    assert transport.paused
    server.clock.advance(60 * 1000)
    assert connection.overdue_reason(server.clock.seconds()) is None
    server.answer(0, [])
    assert connection.overdue_reason(server.clock.seconds()) is None


def test_a_connection_that_waits_too_long_for_memory_is_overdue() -> None:
    server = ServerHarness(request_receive_timeout_ms=5_000, queued_max_request_bytes=50_000)
    first, _ = server.connect()
    second, transport = server.connect()
    server.feed(first, frame(ECHO, bytes(90_000))[:50_000])
    server.feed(second, frame(ECHO, bytes(90_000))[:FIRST_BUFFER_BYTES])
    assert transport.paused
    assert second.overdue_reason(server.clock.seconds() + 6) == "slow_request"


def test_a_client_that_takes_no_answers_is_overdue() -> None:
    server = ServerHarness(response_send_timeout_ms=5_000)
    connection, transport = server.connect()
    transport.room = 1
    server.feed(connection, frame(ECHO, b"x" * 100))
    assert connection.overdue_reason(server.clock.seconds() + 4) is None
    assert connection.overdue_reason(server.clock.seconds() + 6) == "slow_reader"
    transport.room = None
    server.resume_writing(connection)
    assert connection.overdue_reason(server.clock.seconds() + 6) is None


def test_a_client_that_keeps_acknowledging_a_little_is_not_overdue() -> None:
    server = ServerHarness(response_send_timeout_ms=5_000)
    connection, transport = server.connect()
    transport.room, transport.unacknowledged = 1, 1000
    server.feed(connection, frame(ECHO, b"x" * 1000))
    for _ in range(10):
        server.clock.advance(4 * 1000)
        transport.unacknowledged -= 1
        assert connection.overdue_reason(server.clock.seconds()) is None
    server.clock.advance(6 * 1000)
    assert connection.overdue_reason(server.clock.seconds()) == "slow_reader"
