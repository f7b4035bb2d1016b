"""The listeners: bound before anybody is served, and told to clients as advertised."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

import pytest

from mqcore.apis.services import Services
from mqcore.config import BrokerConfig
from mqcore.server.doors import CannotListen, Doors, refuse_public_listeners
from tests.unit.mqcore.server.stage import FakeServices


def bound(**settings: Any) -> list[tuple[str, str, int]]:
    """(listener, host, port) that clients are told."""

    async def main() -> list[tuple[str, str, int]]:
        doors = Doors(cast(Services, FakeServices(BrokerConfig(**settings))))
        try:
            return [(each.listener, each.host, each.port) for each in await doors.bind()]
        finally:
            for _, opened in doors._sockets:
                opened.close()

    return asyncio.run(main())


def test_port_0_is_told_as_the_port_it_became() -> None:
    ((listener, host, port),) = bound(listeners="PLAINTEXT://127.0.0.1:0")
    assert (listener, host) == ("PLAINTEXT", "127.0.0.1") and port > 0


def test_what_is_advertised_is_told_and_not_where_it_listens() -> None:
    told = bound(
        listeners="INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        advertised_listeners="OUTSIDE://shop.example:19092,INSIDE://broker:9092",
    )
    assert told == [("INSIDE", "broker", 9092), ("OUTSIDE", "shop.example", 19092)]


@pytest.mark.parametrize("everywhere", ["0.0.0.0", ""])
def test_an_address_that_nobody_could_come_back_to_becomes_the_name_of_the_machine(everywhere: str) -> None:
    ((_, host, port),) = bound(listeners=f"PLAINTEXT://{everywhere}:0")
    assert host == socket.gethostname() and port > 0


def test_an_address_that_is_taken_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(CannotListen, match=f"127.0.0.1:{port}"):
            bound(listeners=f"PLAINTEXT://127.0.0.1:{port}")


PUBLIC = ["0.0.0.0", "", "[::]", "0", "192.0.2.1", "[2001:db8::1]", "[::ffff:0.0.0.0]", "[::ffff:192.0.2.1]"]


@pytest.mark.parametrize("host", PUBLIC)
def test_a_listener_that_other_machines_can_reach_is_refused(host: str) -> None:
    listeners = f"INSIDE://127.0.0.1:9092,OUTSIDE://{host}:9093"
    with pytest.raises(CannotListen, match=r"OUTSIDE://.*allow\.unauthenticated\.listeners=true"):
        refuse_public_listeners(BrokerConfig(listeners=listeners))
    refuse_public_listeners(BrokerConfig(listeners=listeners, allow_unauthenticated_listeners=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]", "[::ffff:127.0.0.1]"])
def test_a_listener_on_loopback_may_advertise_whatever_it_wants(host: str) -> None:
    refuse_public_listeners(
        BrokerConfig(listeners=f"PLAINTEXT://{host}:0", advertised_listeners="PLAINTEXT://shop.example:9092")
    )


def test_a_name_is_judged_by_all_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(0, 0, 0, "", ("127.0.0.1", 0)), (0, 0, 0, "", ("192.0.2.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(CannotListen, match="both.example"):
        refuse_public_listeners(BrokerConfig(listeners="PLAINTEXT://both.example:9092"))


def test_a_name_that_is_not_known_is_named() -> None:
    with pytest.raises(CannotListen, match="nowhere.invalid"):
        refuse_public_listeners(BrokerConfig(listeners="PLAINTEXT://nowhere.invalid:9092"))


def test_the_page_of_metrics_is_a_listener_too() -> None:
    with pytest.raises(CannotListen, match=r"metrics\.listener.*allow\.unauthenticated\.listeners"):
        refuse_public_listeners(BrokerConfig(metrics_listener="0.0.0.0:9644"))
