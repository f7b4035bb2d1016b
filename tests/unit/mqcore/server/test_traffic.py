"""How many connections there may be, in all and from one address."""

from __future__ import annotations

import logging

import pytest

from mqcore.server.traffic import MOST_COMPLAINTS_A_SECOND
from tests.unit.mqcore.server.stage import Stage


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
