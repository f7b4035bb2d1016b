"""Shell: the memory of one gateway in its worst case: all connections open, and the broker does not answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from loadtest.benchmarks.gateway.mixed import send_load
from loadtest.benchmarks.gateway.servers import CONNECTIONS, GATEWAY, Announce, GatewayServers, LoadFailed, gateway
from loadtest.benchmarks.gateway.stalled_purchases import StallSpec
from loadtest.benchmarks.gateway.throughput import WAITING_MAX

WARM_UP_RATE = 1_000


@dataclass(slots=True)
class MemoryResult:
    """In MB, of all processes of the gateway."""

    connections: int
    waiting: int
    started_mb: float
    warm_mb: float  # after purchases and polls
    open_mb: float  # with all connections open, before the broker stops
    stalled_mb: float


def measure(folder: Path, seconds: float, announce: Announce) -> MemoryResult:
    with GatewayServers(folder, [gateway()], announce) as servers:
        started_mb = servers.resident_mb(GATEWAY)
        announce("warm up the gateway")
        send_load(servers, gateway(), "warm-", seconds, WARM_UP_RATE, WARM_UP_RATE)
        warm_mb = servers.resident_mb(GATEWAY)
        announce(f"{CONNECTIONS:,} connections, {WAITING_MAX} purchases wait for a stopped broker")
        spec = StallSpec(
            **servers.target(GATEWAY), users="stalled-", connections=CONNECTIONS, waiting=WAITING_MAX
        )  # fmt: skip
        with servers.generator("stalled_purchases", asdict(spec)) as load:
            if load.result()["open"] != CONNECTIONS:
                raise LoadFailed(f"fewer than {CONNECTIONS} connections are open")
            open_mb = servers.resident_mb(GATEWAY)
            with _stopped(servers.pids["broker"]):
                load.allow()
                found = load.result()
                stalled_mb = servers.resident_mb(GATEWAY)
            load.allow()
    return MemoryResult(CONNECTIONS, found["waiting"], started_mb, warm_mb, open_mb, stalled_mb)


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """SIGSTOP: the process keeps its connections and answers nothing."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
