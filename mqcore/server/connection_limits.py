"""Shell: the limits of all connections together: how many there are, what they hold, and how long they may be silent.

Own rule: every count and every byte that a client can cause has a limit.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter
from typing import Protocol

from mqcore.config import BrokerConfig
from mqcore.host import Clock
from mqcore.metrics import Metrics
from mqcore.server.budgets import ReceiveBudget, SendBudget

log = logging.getLogger(__name__)

RESERVED_CONNECTIONS = 64
"""Of max.connections, for the listeners that inter.broker.listener.name and controller.listener.names name."""

SWEEP_INTERVAL_SECONDS = 1.0
SHRINK_AFTER_SECONDS = 5.0
DRAIN_POLL_SECONDS = 0.01
CLOSED_LINES_PER_SECOND_MAX = 20
UNLOGGED_REASONS = ("idle", "no_request")
"""Counted but not logged, because port scans and health checks cause them."""


class LimitedConnection(Protocol):
    """A connection, as the limits see it."""

    listener: str
    client_host: str
    last_request_at: float

    @property
    def unsent(self) -> tuple[bool, int]: ...

    def overdue_reason(self, now: float) -> str | None: ...

    def extend_deadlines(self, seconds: float) -> None: ...

    def shrink(self) -> None: ...

    def end(self) -> None: ...

    def abort(self) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...


class ConnectionLimits:
    def __init__(self, config: BrokerConfig, metrics: Metrics, clock: Clock) -> None:
        self.config = config
        self.connections: dict[LimitedConnection, None] = {}  # in the order of their arrival
        self.is_draining = False
        self.waiting_bytes = 0  # memory of all calls that wait for their answers
        self._metrics = metrics
        self._clock = clock
        self._connections_by_address: Counter[str] = Counter()
        self.receive_budget = ReceiveBudget(config.queued_max_request_bytes, self._connections_by_address)
        self.send_budget = SendBudget(config.queued_max_response_bytes)
        self._connections_gauge = metrics.connections.cell()
        self._reserving = {config.inter_broker_listener_name.upper(), config.controller_listener} - {""}
        self._log_second_began = float("-inf")
        self._closed_this_second = 0

    # ── connections ──────────────────────────────────────────────────────────────────────────────

    def admit(self, connection: LimitedConnection, address: str) -> bool:
        """Count a new connection, unless a limit is reached. `address` comes from `address_of`."""
        if self.is_draining:
            return False
        places = self.config.max_connections
        if self._reserving and connection.listener not in self._reserving:
            places -= min(RESERVED_CONNECTIONS, places // 2)
        is_full = len(self.connections) >= places
        if is_full or self._connections_by_address[address] >= self.config.max_connections_per_ip:
            self.count_closed("too_many_connections", address, f"{len(self.connections)} are open")
            return False
        self.connections[connection] = None
        self._connections_by_address[address] += 1
        self._connections_gauge.value = len(self.connections)
        return True

    def remove(self, connection: LimitedConnection, address: str) -> None:
        self.connections.pop(connection, None)
        self._connections_by_address[address] -= 1
        if not self._connections_by_address[address]:
            del self._connections_by_address[address]
        self._connections_gauge.value = len(self.connections)

    def count_closed(self, reason: str, host: str, detail: str = "") -> None:
        """Count a connection that the broker closes, and log it, at most `CLOSED_LINES_PER_SECOND_MAX` a second."""
        self._metrics.bad_requests.cell(reason).value += 1
        now = self._clock.seconds()
        if now - self._log_second_began >= 1:
            unlogged = self._closed_this_second - CLOSED_LINES_PER_SECOND_MAX
            if unlogged > 0:
                log.warning("more connections closed", extra={"count": unlogged})
            self._log_second_began, self._closed_this_second = now, 0
        self._closed_this_second += 1
        if self._closed_this_second <= CLOSED_LINES_PER_SECOND_MAX:
            facts = {"reason": reason, "client": host} | ({"detail": detail} if detail else {})
            log.warning("connection closed", extra=facts)

    # ── memory ───────────────────────────────────────────────────────────────────────────────────

    def limit_unsent(self) -> None:
        """While unread responses exceed their memory, close the connection that holds the most."""
        while self.send_budget.is_exceeded and self.connections:
            largest = max(self.connections, key=lambda connection: connection.unsent)
            unsent_bytes = largest.unsent[1]
            if not unsent_bytes:
                return
            self.count_closed("unread_responses", largest.client_host, f"{unsent_bytes} bytes")
            largest.abort()
            largest.connection_lost(None)

    @property
    def is_crowded(self) -> bool:
        """Waiting calls hold so much memory that no connection may add a second one. In memory they take several times
        the bytes counted here."""
        return self.waiting_bytes > self.config.queued_max_request_bytes // 8

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    async def sweep(self) -> None:
        """Close overdue connections once a second, until cancelled."""
        seconds = self._clock.seconds
        while True:
            began = seconds()
            await self._clock.sleep(SWEEP_INTERVAL_SECONDS)
            now = seconds()
            self.close_overdue(now, blocked_seconds=now - began - SWEEP_INTERVAL_SECONDS)

    def close_overdue(self, now: float, blocked_seconds: float = 0.0) -> None:
        """Close connections that are idle, send too slowly or read too slowly; shrink the buffers of quiet ones.

        `blocked_seconds`: how long the broker itself was blocked. Bytes that arrived meanwhile are not read yet, so
        that time is not held against the clients."""
        for connection in list(self.connections):
            if blocked_seconds > SWEEP_INTERVAL_SECONDS:
                connection.extend_deadlines(blocked_seconds)
            reason = connection.overdue_reason(now)
            if reason is not None:
                if reason in UNLOGGED_REASONS:
                    self._metrics.bad_requests.cell(reason).value += 1
                else:
                    self.count_closed(reason, connection.client_host)
                connection.abort()
            elif now - connection.last_request_at > SHRINK_AFTER_SECONDS:
                connection.shrink()

    def end(self) -> None:
        """Accept no further request; connections close when their answers are sent."""
        self.is_draining = True
        for connection in list(self.connections):
            connection.end()

    async def drain(self, timeout_s: float) -> None:
        """Wait until every connection has sent its answers; abort the rest after `timeout_s`."""
        deadline = self._clock.seconds() + timeout_s
        while self.connections and self._clock.seconds() < deadline:
            await self._clock.sleep(DRAIN_POLL_SECONDS)
        for connection in list(self.connections):
            connection.abort()


def address_of(host: str) -> str:
    """The unit that per-address limits count: an IPv4 address (also when mapped into IPv6), or an IPv6 /64, because
    that is what a customer of a network usually gets."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(address) >> 64 << 64))
