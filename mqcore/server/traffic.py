"""Shell: all connections together — how many there may be, how much they may hold, and who has been still too long.

RELIABILITY's rule for a server: every count and every byte that a stranger can cause has a limit.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from mqcore.apis.services import Services
from mqcore.server.budgets import ReceiveBudget, SendBudget
from mqcore.server.dispatch import with_counters

if TYPE_CHECKING:
    from mqcore.server.connection import Connection

log = logging.getLogger(__name__)

RESERVED_CONNECTIONS = 64
"""Of max.connections, for the listener that inter.broker.listener.name names."""

SWEEP_SECONDS = 1.0
SHRINK_AFTER_SECONDS = 5.0
MOST_COMPLAINTS_A_SECOND = 20
QUIET_REASONS = ("idle", "no_request")
"""Counted, but not worth a line in the log: a port scan or a health check does it."""


class Traffic:
    def __init__(
        self, services: Services, call_soon: Callable[[Callable[[], None]], object] = lambda step: step()
    ) -> None:
        self.services = services
        self._call_soon = call_soon
        self._at_turns_end: list[tuple[Connection, Callable[[], None]]] = []
        self.config = services.config
        self.metrics = services.metrics
        self.table = with_counters(self.metrics)
        self.connections: set[Connection] = set()
        self.draining = False
        self._by_host: Counter[str] = Counter()
        self.receive_budget = ReceiveBudget(self.config.queued_max_request_bytes, self._by_host)
        self.send_budget = SendBudget(self.config.queued_max_response_bytes)
        self.waiting_bytes = 0  # of requests that wait for their answers
        self._gauge = self.metrics.connections.cell()
        self._complaints_since = 0.0
        self._complaints = 0

    # ── connections ──────────────────────────────────────────────────────────────────────────────

    def admit(self, connection: Connection, host: str) -> bool:
        """`host`: the address as `address_of` has it."""
        if self.draining:
            return False
        places = self.config.max_connections
        if self.config.inter_broker_listener_name.upper() not in ("", connection.listener):
            places -= min(RESERVED_CONNECTIONS, places // 2)
        full = len(self.connections) >= places
        if full or self._by_host[host] >= self.config.max_connections_per_ip:
            self.complain("too_many_connections", host, f"{len(self.connections)} are open")
            return False
        self.connections.add(connection)
        self._by_host[host] += 1
        self._gauge.value = len(self.connections)
        return True

    def leave(self, connection: Connection, host: str) -> None:
        self.connections.discard(connection)
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
        self._gauge.value = len(self.connections)

    def complain(self, reason: str, host: str, said: str = "") -> None:
        """A connection is closed for a reason: count it, and say so in one line, but never in more than can be read."""
        self.metrics.bad_requests.cell(reason).value += 1
        now = time.monotonic()
        if now - self._complaints_since >= 1:
            if self._complaints > MOST_COMPLAINTS_A_SECOND:
                log.warning("more connections closed", extra={"count": self._complaints - MOST_COMPLAINTS_A_SECOND})
            self._complaints_since, self._complaints = now, 0
        self._complaints += 1
        if self._complaints <= MOST_COMPLAINTS_A_SECOND:
            facts = {"reason": reason, "client": host} | ({"said": said} if said else {})
            log.warning("connection closed", extra=facts)

    # ── turns of the loop ────────────────────────────────────────────────────────────────────────

    def at_turns_end(self, connection: Connection, step: Callable[[], None]) -> None:
        """Do it after everything that this turn of the event loop has brought."""
        self._at_turns_end.append((connection, step))
        if len(self._at_turns_end) == 1:
            self._call_soon(self._end_turn)

    def _end_turn(self) -> None:
        steps, self._at_turns_end = self._at_turns_end, []
        for connection, step in steps:
            try:
                step()
            except Exception:  # it costs its connection and no other
                log.exception("a connection failed", extra={"client": connection.client_host})
                connection.abort()
        if self.send_budget.is_exceeded:
            self.limit_unsent()

    # ── memory ───────────────────────────────────────────────────────────────────────────────────

    def limit_unsent(self) -> None:
        """If responses that clients do not take fill the memory for them, close the connection with the most."""
        while self.send_budget.is_exceeded and self.connections:
            largest = max(self.connections, key=lambda connection: connection.unsent)
            if not largest.unsent[1]:
                return
            self.complain("unread_responses", largest.client_host, f"{largest.unsent[1]} bytes")
            largest.abort()
            largest.connection_lost(None)

    @property
    def is_crowded(self) -> bool:
        """Requests that wait hold too much, several times their bytes: no connection may add a second one."""
        return self.waiting_bytes > self.config.queued_max_request_bytes // 8

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    async def sweep(self) -> None:
        """Once a second, until the broker stops: `look_over` all connections."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(SWEEP_SECONDS)
            self.look_over(time.monotonic(), late=time.monotonic() - began - SWEEP_SECONDS)

    def look_over(self, now: float, late: float = 0.0) -> None:
        """Close connections that are idle, slow to send or slow to read; shrink idle buffers. `late`: the broker itself
        stood still for so many seconds, and what has arrived since is not read yet, so those are not counted."""
        for connection in list(self.connections):
            if late > SWEEP_SECONDS:
                connection.excuse(late)
            reason = connection.overdue(now)
            if reason is not None:
                if reason in QUIET_REASONS:
                    self.metrics.bad_requests.cell(reason).value += 1
                else:
                    self.complain(reason, connection.client_host)
                connection.abort()
            elif now - connection.last_request_at > SHRINK_AFTER_SECONDS:
                connection.shrink()

    def end(self) -> None:
        """Take no further request."""
        self.draining = True
        for connection in list(self.connections):
            connection.end()

    async def drain(self, timeout_s: float) -> None:
        """Wait until everything is answered and closed, but not for ever."""
        deadline = time.monotonic() + timeout_s
        while self.connections and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.abort()


def address_of(host: str) -> str:
    """What counts as one address: an IPv4 address, also one that comes by IPv6, or the /64 that a customer of a network
    is given."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(address) >> 64 << 64))
