"""Listeners: which addresses they bind, what clients are told, and which addresses need permission."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from mqcore.config import BrokerConfig
from mqcore.host import SystemNetwork
from mqcore.server.listeners import CannotListen, Listeners, refuse_public_listeners
from tests.unit.mqcore.fake_services import services_with


def advertised(**settings: Any) -> list[tuple[str, str, int]]:
    """(listener, host, port) that clients are told."""

    async def main() -> list[tuple[str, str, int]]:
        listeners = Listeners(services_with(BrokerConfig(**settings)))
        try:
            return [(each.listener, each.host, each.port) for each in await listeners.bind()]
        finally:
            for _, bound in listeners._bound:
                bound.close()

    return asyncio.run(main())


def check(config: BrokerConfig) -> None:
    refuse_public_listeners(config, SystemNetwork())


def test_clients_are_told_the_real_port_instead_of_port_0() -> None:
    ((listener, host, port),) = advertised(listeners="PLAINTEXT://127.0.0.1:0")
    assert (listener, host) == ("PLAINTEXT", "127.0.0.1") and port > 0


def test_clients_are_told_the_advertised_address() -> None:
    endpoints = advertised(
        listeners="INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        advertised_listeners="OUTSIDE://shop.example:19092,INSIDE://broker:9092",
    )
    assert endpoints == [("INSIDE", "broker", 9092), ("OUTSIDE", "shop.example", 19092)]


@pytest.mark.parametrize("everywhere", ["0.0.0.0", ""])
def test_a_wildcard_address_is_advertised_as_the_host_name(everywhere: str) -> None:
    ((_, host, port),) = advertised(listeners=f"PLAINTEXT://{everywhere}:0")
    assert host == socket.gethostname() and port > 0


def test_the_error_names_an_address_in_use() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(CannotListen, match=f"127.0.0.1:{port}"):
            advertised(listeners=f"PLAINTEXT://127.0.0.1:{port}")


PUBLIC = ["0.0.0.0", "", "[::]", "0", "192.0.2.1", "[2001:db8::1]", "[::ffff:0.0.0.0]", "[::ffff:192.0.2.1]"]


@pytest.mark.parametrize("host", PUBLIC)
def test_a_listener_that_other_machines_can_reach_needs_explicit_permission(host: str) -> None:
    listeners = f"INSIDE://127.0.0.1:9092,OUTSIDE://{host}:9093"
    with pytest.raises(CannotListen, match=r"OUTSIDE://.*allow\.unauthenticated\.listeners=true"):
        check(BrokerConfig(listeners=listeners))
    check(BrokerConfig(listeners=listeners, allow_unauthenticated_listeners=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]", "[::ffff:127.0.0.1]"])
def test_a_loopback_listener_may_advertise_any_address(host: str) -> None:
    check(BrokerConfig(listeners=f"PLAINTEXT://{host}:0", advertised_listeners="PLAINTEXT://shop.example:9092"))


def test_a_host_name_is_public_if_any_of_its_addresses_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(0, 0, 0, "", ("127.0.0.1", 0)), (0, 0, 0, "", ("192.0.2.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(CannotListen, match="both.example"):
        check(BrokerConfig(listeners="PLAINTEXT://both.example:9092"))


def test_the_error_names_an_unknown_host() -> None:
    with pytest.raises(CannotListen, match="nowhere.invalid"):
        check(BrokerConfig(listeners="PLAINTEXT://nowhere.invalid:9092"))


def test_a_public_metrics_listener_needs_explicit_permission() -> None:
    with pytest.raises(CannotListen, match=r"metrics\.listener.*allow\.unauthenticated\.listeners"):
        check(BrokerConfig(metrics_listener="0.0.0.0:9644"))
