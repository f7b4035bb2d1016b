"""How many connections there may be, in all and from one address."""

from __future__ import annotations

import logging

import pytest

from mqcore.server.traffic import MOST_COMPLAINTS_A_SECOND, address_of
from tests.unit.mqcore.server.stage import ECHO, Stage, feed, frame


def test_connections_are_limited_in_all() -> None:
    stage = Stage(max_connections=3)
    transports = [stage.connect(f"10.0.0.{number}")[1] for number in range(5)]
    assert [transport.aborted for transport in transports] == [False, False, False, True, True]
    assert stage.bad("too_many_connections") == 2


def test_connections_of_one_address_are_limited() -> None:
    stage = Stage(max_connections_per_ip=2)
    made = [stage.connect("10.0.0.1") for _ in range(3)]
    assert [transport.aborted for _, transport in made] == [False, False, True]
    assert not stage.connect("10.0.0.2")[1].aborted
    made[0][0].connection_lost(None)
    assert not stage.connect("10.0.0.1")[1].aborted


def test_a_refused_connection_is_not_counted_when_it_goes() -> None:
    stage = Stage(max_connections=1)
    kept, _ = stage.connect()
    refused, _ = stage.connect()
    refused.connection_lost(None)
    assert stage.traffic.connections == {kept}
    assert stage.services.metrics.connections.cell().value == 1
    kept.connection_lost(None)
    assert not stage.traffic.connections and not stage.traffic._by_host


def test_strangers_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    stage = Stage()
    for number in range(10 * MOST_COMPLAINTS_A_SECOND):
        stage.traffic.complain("bad_request", "10.0.0.1", f"nonsense {number}")
    assert len(caplog.records) == MOST_COMPLAINTS_A_SECOND
    assert stage.bad("bad_request") == 10 * MOST_COMPLAINTS_A_SECOND
    stage.traffic._complaints_since -= 1  # a second later
    stage.traffic.complain("bad_request", "10.0.0.1")
    assert [record.getMessage() for record in caplog.records[-2:]] == ["more connections closed", "connection closed"]
    assert caplog.records[-2].__dict__["count"] == 9 * MOST_COMPLAINTS_A_SECOND


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
def test_an_address_is_what_one_stranger_can_have_many_of(host: str, address: str) -> None:
    assert address_of(host) == address


def test_places_are_reserved_for_the_inner_listener() -> None:
    stage = Stage(max_connections=10, inter_broker_listener_name="inside")
    outside = [stage.connect(f"10.0.0.{number}")[1] for number in range(7)]
    assert [transport.aborted for transport in outside] == [False] * 5 + [True] * 2
    inside = [stage.connect(f"10.0.1.{number}", listener="INSIDE")[1] for number in range(6)]
    assert [transport.aborted for transport in inside] == [False] * 5 + [True]


def test_a_connection_that_never_asks_is_closed_without_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(first_request_timeout_ms=10_000)
    silent, silent_transport = stage.connect()
    talking, talking_transport = stage.connect()
    feed(talking, frame(ECHO))
    stage.traffic.look_over(silent.last_request_at + 9)
    assert not silent_transport.aborted
    stage.traffic.look_over(talking.last_request_at + 11)
    assert (silent_transport.aborted, talking_transport.aborted) == (True, False)
    assert stage.bad("no_request") == 1 and not caplog.records


def test_time_in_which_the_broker_stood_still_is_not_held_against_its_clients() -> None:
    stage = Stage(request_receive_timeout_ms=5_000, connections_max_idle_ms=10_000)
    slow, slow_transport = stage.connect()
    feed(slow, frame(ECHO) + frame(ECHO)[:6])
    now = slow.last_request_at + 60
    stage.traffic.look_over(now, late=59.0)
    assert not slow_transport.aborted
    stage.traffic.look_over(now + 6)
    assert slow_transport.aborted
