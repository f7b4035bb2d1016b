"""Shell: all connections together — how many there may be, how much they may hold, and who has been still too long.

RELIABILITY's rule for a server: every count and every byte that a stranger can cause has a limit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from typing import TYPE_CHECKING

from mqcore.apis.services import Services
from mqcore.server.dispatch import with_counters

if TYPE_CHECKING:
    from mqcore.server.connection import Connection

log = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
SHRINK_AFTER_SECONDS = 5.0


class Traffic:
    def __init__(self, services: Services) -> None:
        self.services = services
        self.config = services.config
        self.metrics = services.metrics
        self.table = with_counters(self.metrics)
        self.connections: set[Connection] = set()
        self.draining = False
        self._by_host: Counter[str] = Counter()
        self._held_bytes = 0  # of receive buffers beyond their first size
        self.waiting_bytes = 0  # of requests that wait for their answers
        self._starving: deque[Connection] = deque()
        self._gauge = self.metrics.connections.cell()
        self._refused_logged_at = 0.0

    # ── connections ──────────────────────────────────────────────────────────────────────────────

    def admit(self, connection: Connection, host: str) -> bool:
        if self.draining:
            return False
        full = len(self.connections) >= self.config.max_connections
        if full or self._by_host[host] >= self.config.max_connections_per_ip:
            self.metrics.bad_requests.cell("too_many_connections").value += 1
            now = time.monotonic()
            if now - self._refused_logged_at > 1:
                self._refused_logged_at = now
                log.warning("connections refused", extra={"host": host, "open": len(self.connections)})
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

    # ── memory of half-received requests ─────────────────────────────────────────────────────────

    def take(self, connection: Connection, more: int) -> bool:
        """May this connection hold so many bytes more? If not it waits until others have given back theirs."""
        if self._held_bytes and self._held_bytes + more > self.config.queued_max_request_bytes:
            self._starving.append(connection)
            return False
        self._held_bytes += more
        return True

    def force(self, more: int) -> None:
        """Count bytes that had to be taken."""
        self._held_bytes += more

    def give_back(self, bytes_held: int) -> None:
        self._held_bytes -= bytes_held
        for _ in range(len(self._starving)):  # who is fed may be starving again at once
            if self._held_bytes and self._held_bytes >= self.config.queued_max_request_bytes // 2:
                return
            self._starving.popleft().fed()

    @property
    def is_crowded(self) -> bool:
        """Requests that wait hold too much, several times their bytes: no connection may add a second one."""
        return self.waiting_bytes > self.config.queued_max_request_bytes // 4

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    async def sweep(self) -> None:
        """For ever: close whoever is idle, slow to send or slow to read; shrink idle buffers."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = time.monotonic()
            for connection in list(self.connections):
                reason = connection.overdue(now)
                if reason is not None:
                    self.metrics.bad_requests.cell(reason).value += 1
                    if reason != "idle":
                        log.warning("connection closed", extra={"reason": reason, "client": connection.client_host})
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
