"""Shell: the listeners, and the page of metrics."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from functools import partial

from mqcore.apis.services import Services
from mqcore.config import BrokerConfig, host_and_port
from mqcore.controller.facts import Endpoint
from mqcore.server import metrics_page
from mqcore.server.connection import Connection
from mqcore.server.traffic import Traffic

log = logging.getLogger(__name__)

BACKLOG = 1024
EVERYWHERE = ("", "0.0.0.0", "::")  # nosec B104


class CannotListen(Exception):
    """An address that cannot be bound; the text says which and why."""


class Doors:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._traffic = Traffic(services, asyncio.get_running_loop().call_soon)
        self._sockets: list[tuple[str, socket.socket]] = []
        self._servers: list[asyncio.AbstractServer] = []
        self._sweep: asyncio.Task[None] | None = None
        self.endpoints: tuple[Endpoint, ...] = ()

    async def bind(self) -> tuple[Endpoint, ...]:
        """Take the addresses, but serve nobody yet: now it is known what clients are told of port 0."""
        endpoints = []
        for listener in self._services.config.listener_list():
            bound = _bind(listener.host, listener.port)
            self._sockets.append((listener.name, bound))
            port = bound.getsockname()[1]
            host = listener.advertised_host
            if host in EVERYWHERE:
                host = socket.gethostname()
            endpoints.append(Endpoint(listener.name, host, listener.advertised_port or port))
            log.info("listening", extra={"listener": listener.name, "host": listener.host, "port": port})
        self.endpoints = tuple(endpoints)
        return self.endpoints

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        for name, bound in self._sockets:
            factory = partial(Connection, self._traffic, name)
            bound.listen(BACKLOG)
            self._servers.append(await loop.create_server(factory, sock=bound, backlog=BACKLOG))
        address = self._services.config.metrics_listener
        if address:
            bound = _bind(*host_and_port(address, "metrics.listener"))
            self._servers.append(await metrics_page.serve(self._services.metrics, bound))
        self._sweep = asyncio.create_task(self._traffic.sweep())

    def close(self) -> None:
        """Let nobody in, take no further request."""
        for server in self._servers:
            server.close()
        self._traffic.end()

    async def drain(self, timeout_s: float) -> None:
        """Wait until the requests under way are answered."""
        await self._traffic.drain(timeout_s)
        if self._sweep is not None:
            self._sweep.cancel()


def refuse_public_listeners(config: BrokerConfig) -> None:
    """`CannotListen` if other machines could reach a listener although the settings do not say that they may."""
    if config.allow_unauthenticated_listeners:
        return
    addresses = [
        (f"listener {each.name}://{_shown(each.host)}:{each.port}", each.host) for each in config.listener_list()
    ]
    if config.metrics_listener:
        host = host_and_port(config.metrics_listener, "metrics.listener")[0]
        addresses.append((f"metrics.listener {config.metrics_listener}", host))
    for name, host in addresses:
        if not _is_loopback(host):
            raise CannotListen(
                f"{name} can be reached from other machines, and clients need no password: listen on 127.0.0.1, or set"
                " allow.unauthenticated.listeners=true if only clients you trust can connect"
            )


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_loopback(host: str) -> bool:
    """Whether all addresses of a host belong to this machine alone."""
    try:
        found = socket.getaddrinfo(host or EVERYWHERE[1], None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise CannotListen(f"cannot listen on {host}: {error}") from error
    addresses = [ipaddress.ip_address(str(address[4][0]).partition("%")[0]) for address in found]
    return all((getattr(address, "ipv4_mapped", None) or address).is_loopback for address in addresses)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise CannotListen(f"cannot listen on {host}:{port}: {error.strerror}") from error
    bound.setblocking(False)
    return bound
