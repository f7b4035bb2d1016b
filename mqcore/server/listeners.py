"""Shell: the listening sockets of the Kafka protocol and of the metrics page."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from functools import partial

from mqcore.apis.services import Services
from mqcore.config import BrokerConfig
from mqcore.config_values import host_and_port
from mqcore.controller.facts import Endpoint
from mqcore.host import BoundAddress, Network, Server
from mqcore.server import metrics_page
from mqcore.server.connection import Connection
from mqcore.server.context import ServerContext

log = logging.getLogger(__name__)

EVERYWHERE = ("", "0.0.0.0", "::")  # nosec B104


class CannotListen(Exception):
    """An address that cannot be bound; the text says which one and why."""


class Listeners:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._context = ServerContext.of(services)
        self._bound: list[tuple[str, BoundAddress]] = []
        self._servers: list[Server] = []
        self._sweep: asyncio.Task[None] | None = None
        self.endpoints: tuple[Endpoint, ...] = ()

    async def bind(self) -> tuple[Endpoint, ...]:
        """Bind the addresses without accepting connections yet. Returns what clients are told, with port 0 resolved.

        Clients are not told of the controller's listener: `controller.quorum.voters` names it to the other nodes."""
        endpoints = []
        network = self._services.network
        for listener in self._services.config.listener_list():
            bound = _bind(network, listener.host, listener.port)
            self._bound.append((listener.name, bound))
            log.info("listening", extra={"listener": listener.name, "host": listener.host, "port": bound.port})
            if listener.name == self._services.config.controller_listener:
                continue
            host = listener.advertised_host
            if host in EVERYWHERE:
                host = network.host_name()
            endpoints.append(Endpoint(listener.name, host, listener.advertised_port or bound.port))
        self.endpoints = tuple(endpoints)
        return self.endpoints

    async def open_controller(self) -> None:
        """Accept connections of other nodes, so that they can elect a controller before clients are served."""
        controller = self._services.config.controller_listener
        for name, bound in self._bound:
            if name == controller:
                self._servers.append(await bound.serve(partial(Connection, self._context.of_controller(), name)))

    async def open(self) -> None:
        """Accept connections of clients, and of brokers that copy partitions."""
        services = self._services
        for name, bound in self._bound:
            if name != services.config.controller_listener:
                self._servers.append(await bound.serve(partial(Connection, self._context, name)))
        address = services.config.metrics_listener
        if address:
            bound = _bind(services.network, *host_and_port(address, "metrics.listener"))
            self._servers.append(await metrics_page.serve(services.metrics, bound, services.clock))
        self._sweep = asyncio.create_task(self._context.limits.sweep())

    def close(self) -> None:
        """Accept no further connection and no further request."""
        for server in self._servers:
            server.close()
        self._context.limits.end()

    async def drain(self, timeout_s: float) -> None:
        """Wait until the pending requests are answered, but at most `timeout_s`."""
        await self._context.limits.drain(timeout_s)
        if self._sweep is not None:
            self._sweep.cancel()


def refuse_public_listeners(config: BrokerConfig, network: Network) -> None:
    """Raise `CannotListen` if other machines could reach a listener and the configuration does not allow that."""
    if config.allow_unauthenticated_listeners:
        return
    addresses = [
        (f"listener {each.name}://{_bracketed(each.host)}:{each.port}", each.host) for each in config.listener_list()
    ]
    if config.metrics_listener:
        host = host_and_port(config.metrics_listener, "metrics.listener")[0]
        addresses.append((f"metrics.listener {config.metrics_listener}", host))
    for name, host in addresses:
        if not _is_loopback(network, host):
            raise CannotListen(
                f"{name} can be reached from other machines, and clients need no password: listen on 127.0.0.1, or set"
                " allow.unauthenticated.listeners=true if only clients you trust can connect"
            )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_loopback(network: Network, host: str) -> bool:
    """True if every address of the host is a loopback address."""
    try:
        found = network.resolve(host or EVERYWHERE[1])
    except (OSError, UnicodeError) as error:
        raise CannotListen(f"cannot listen on {host}: {error}") from error
    addresses = [ipaddress.ip_address(address.partition("%")[0]) for address in found]
    return all((getattr(address, "ipv4_mapped", None) or address).is_loopback for address in addresses)


def _bind(network: Network, host: str, port: int) -> BoundAddress:
    try:
        return network.bind(host, port)
    except OSError as error:
        raise CannotListen(f"cannot listen on {host}:{port}: {error.strerror}") from error
