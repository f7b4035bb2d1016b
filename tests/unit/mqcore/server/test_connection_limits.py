"""How many connections are allowed, in total and per address, and when overdue ones are closed."""

from __future__ import annotations

import logging

import pytest

from mqcore.server.connection_limits import CLOSED_LINES_PER_SECOND_MAX, address_of
from tests.unit.mqcore.server.harness import ECHO, ServerHarness, frame


def test_the_number_of_connections_is_limited() -> None:
    server = ServerHarness(max_connections=3)
    transports = [server.connect(f"10.0.0.{number}")[1] for number in range(5)]
    assert [transport.aborted for transport in transports] == [False, False, False, True, True]
    assert server.closed_connections("too_many_connections") == 2


def test_the_connections_of_one_address_are_limited() -> None:
    server = ServerHarness(max_connections_per_ip=2)
    made = [server.connect("10.0.0.1") for _ in range(3)]
    assert [transport.aborted for _, transport in made] == [False, False, True]
    assert not server.connect("10.0.0.2")[1].aborted
    made[0][0].connection_lost(None)
    assert not server.connect("10.0.0.1")[1].aborted


def test_closing_a_refused_connection_changes_no_count() -> None:
    server = ServerHarness(max_connections=1)
    kept, _ = server.connect()
    refused, _ = server.connect()
    refused.connection_lost(None)
    assert set(server.limits.connections) == {kept}
    assert server.metrics.connections.cell().value == 1
    kept.connection_lost(None)
    assert not server.limits.connections and not server.limits._connections_by_address


def test_closed_connections_write_a_limited_number_of_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    server = ServerHarness()
    for number in range(10 * CLOSED_LINES_PER_SECOND_MAX):
        server.limits.count_closed("bad_request", "10.0.0.1", f"nonsense {number}")
    assert len(caplog.records) == CLOSED_LINES_PER_SECOND_MAX
    assert server.closed_connections("bad_request") == 10 * CLOSED_LINES_PER_SECOND_MAX
    server.limits._log_second_began -= 1  # a second later
    server.limits.count_closed("bad_request", "10.0.0.1")
    assert [record.getMessage() for record in caplog.records[-2:]] == ["more connections closed", "connection closed"]
    assert caplog.records[-2].__dict__["count"] == 9 * CLOSED_LINES_PER_SECOND_MAX


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("?", "?"),
    ],
)
def test_ipv6_addresses_of_one_network_count_as_one_address(host: str, address: str) -> None:
    assert address_of(host) == address


def test_connections_are_reserved_for_the_inter_broker_listener() -> None:
    server = ServerHarness(max_connections=10, inter_broker_listener_name="inside")
    outside = [server.connect(f"10.0.0.{number}")[1] for number in range(7)]
    assert [transport.aborted for transport in outside] == [False] * 5 + [True] * 2
    inside = [server.connect(f"10.0.1.{number}", listener="INSIDE")[1] for number in range(6)]
    assert [transport.aborted for transport in inside] == [False] * 5 + [True]


def test_a_connection_without_a_request_is_closed_but_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = ServerHarness(first_request_timeout_ms=10_000)
    silent, silent_transport = server.connect()
    talking, talking_transport = server.connect()
    server.feed(talking, frame(ECHO))
    server.limits.close_overdue(silent.last_request_at + 9)
    assert not silent_transport.aborted
    server.limits.close_overdue(talking.last_request_at + 11)
    assert (silent_transport.aborted, talking_transport.aborted) == (True, False)
    assert server.closed_connections("no_request") == 1 and not caplog.records


def test_deadlines_do_not_count_time_in_which_the_broker_was_blocked() -> None:
    server = ServerHarness(request_receive_timeout_ms=5_000, connections_max_idle_ms=10_000)
    slow, slow_transport = server.connect()
    server.feed(slow, frame(ECHO) + frame(ECHO)[:6])
    now = slow.last_request_at + 60
    server.limits.close_overdue(now, blocked_seconds=59.0)
    assert not slow_transport.aborted
    server.limits.close_overdue(now + 6)
    assert slow_transport.aborted
