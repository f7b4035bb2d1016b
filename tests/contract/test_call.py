"""Every implementation of `Call` behaves alike: the server's, and the fake that unit tests use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pytest

from mqcore.apis.call import Call
from tests.unit.mqcore.fake_call import FakeCall
from tests.unit.mqcore.fake_services import services_with
from tests.unit.mqcore.server.harness import WAIT, ServerHarness, answers, frame


class CallFixture(Protocol):
    """A call in progress, and what its client sees."""

    call: Call

    def responses(self) -> list[bytes]: ...

    def is_closed(self) -> bool: ...

    def disconnect(self) -> None: ...


class FakeCallFixture:
    def __init__(self) -> None:
        self.call = FakeCall(services_with(), 0)

    def responses(self) -> list[bytes]:
        return [b"".join(answer) for answer in self.call.answers if answer is not None]

    def is_closed(self) -> bool:
        return self.call.has_hung_up

    def disconnect(self) -> None:
        self.call.disconnect()


class ServerCallFixture:
    def __init__(self) -> None:
        self._server = ServerHarness()
        self._connection, self._transport = self._server.connect("10.0.0.1")
        self._server.feed(self._connection, frame(WAIT, b"", 1))
        (self.call,) = self._server.handlers.waiting

    def responses(self) -> list[bytes]:
        self._server.clock.run_turns()
        return [body for _, body in answers(self._transport.written)]

    def is_closed(self) -> bool:
        self._server.clock.run_turns()
        return self._transport.closed

    def disconnect(self) -> None:
        self._connection.connection_lost(None)


@pytest.fixture(params=[FakeCallFixture, ServerCallFixture])
def fixture(request: pytest.FixtureRequest) -> CallFixture:
    make: Callable[[], CallFixture] = request.param
    return make()


def test_a_call_says_where_it_comes_from(fixture: CallFixture) -> None:
    call = fixture.call
    assert (call.version, call.client_host, call.listener) == (0, "10.0.0.1", "PLAINTEXT")
    assert call.services.config.node_id == 0
    assert not call.is_from_broker


def test_an_answer_reaches_the_client(fixture: CallFixture) -> None:
    assert fixture.responses() == []
    fixture.call.answer([b"yes"])
    assert fixture.responses() == [b"yes"]


def test_a_call_is_answered_once(fixture: CallFixture) -> None:
    fixture.call.answer([b"yes"])
    with pytest.raises(AssertionError, match="answered once"):
        fixture.call.answer([b"no"])


def test_none_sends_no_response(fixture: CallFixture) -> None:
    fixture.call.answer(None)
    assert fixture.responses() == []


def test_a_disconnect_is_reported_once_and_a_later_answer_is_ignored(fixture: CallFixture) -> None:
    reports: list[Any] = []
    fixture.call.when_gone = lambda: reports.append("gone")
    fixture.disconnect()
    fixture.disconnect()
    fixture.call.answer([b"too late"])
    assert reports == ["gone"] and fixture.responses() == []


def test_a_disconnect_after_the_answer_is_not_reported(fixture: CallFixture) -> None:
    reports: list[Any] = []
    fixture.call.when_gone = lambda: reports.append("gone")
    fixture.call.answer([b"yes"])
    assert fixture.call.when_gone is None
    fixture.disconnect()
    assert reports == []


def test_hanging_up_closes_the_connection_after_the_answer(fixture: CallFixture) -> None:
    fixture.call.hang_up()
    fixture.call.answer(None)
    assert fixture.is_closed()


def test_the_end_of_the_connection_is_reported_after_the_answer_too(fixture: CallFixture) -> None:
    heard: list[str] = []
    fixture.call.when_disconnected(lambda: heard.append("first"))
    fixture.call.when_disconnected(lambda: heard.append("second"))
    fixture.call.answer([b"yes"])
    assert heard == []
    fixture.disconnect()
    assert heard == ["second"]
