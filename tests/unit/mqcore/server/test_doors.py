"""The listeners: bound before anybody is served, and told to clients as advertised."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

import pytest

from mqcore.apis.services import Services
from mqcore.config import BrokerConfig
from mqcore.server.doors import CannotListen, Doors
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
