"""Shell: starts the servers once; each measurement sends requests to one view and reads the CPU of all processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from loadtest.benchmarks.gateway.request_sender import LoadSpec
from seckill.stack.child_processes import cpu_seconds, process_family
from seckill.stack.server_set import ServerSet

GATEWAY, BARE, WSGI = "gateway", "bare view", "bare view, WSGI"
VIEWS: dict[str, tuple[str, ...]] = {
    GATEWAY: ("rsgi", "gateway.rsgi:application", "--backpressure", "4096"),
    BARE: ("rsgi", "loadtest.benchmarks.gateway.bare:application", "--backpressure", "4096"),
    WSGI: ("wsgi", "loadtest.benchmarks.gateway.bare:wsgi", "--blocking-threads", "1"),
}
"""WSGI with one thread, because a view that never waits is slower with more."""
CONNECTIONS_MAX = 768
"""The gateway lets this many requests wait at once (gateway/door.py)."""
REQUESTS_PER_SECOND_MAX = 12_000
"""Requests prepared for each second: more than any view can answer."""


class LoadFailed(Exception):
    """The load generator failed; the text has the end of its output."""


@dataclass(slots=True)
class Run:
    """One load on one view."""

    view: str
    connections: int
    accepted_s: float
    share_accepted: float
    latencies_ms: dict[str, float]
    cpu_us: float  # of the server, per request
    cores: dict[str, float] = field(default_factory=dict)  # used by each process


class GatewayServers(ServerSet):
    """The servers and all views. There are no consumers, so nothing else uses the machine."""

    def __init__(self, folder: Path, announce: Callable[[str], None]) -> None:
        super().__init__(folder)
        self._announce = announce
        self._ports: dict[str, int] = {}
        self.sale = 0

    @contextmanager
    def running(self) -> Iterator[GatewayServers]:
        self._announce("start Postgres, Redis and mqcore; create tables and topics")
        with self, ExitStack() as opened:
            self.sale = self.create_sale(1_000_000)
            for view, (interface, application, *options) in VIEWS.items():
                self._announce(f"start the {view}")
                health_path = "readyz" if view == GATEWAY else "livez"
                server = self.web_server(interface, application, *options, health_path=health_path)
                self._ports[view], self.pids[view] = opened.enter_context(server)
            yield self

    def send_load(self, view: str, users: str, seconds: float, connections: int) -> Run:
        from seckill.config.environment import DEVELOPMENT_SECRET

        requests = int(seconds * REQUESTS_PER_SECOND_MAX)
        spec = LoadSpec(self._ports[view], self.sale, DEVELOPMENT_SECRET, users, requests, connections, seconds)
        with subprocess.Popen(
            [sys.executable, "-m", "loadtest.benchmarks.gateway.request_sender"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment(),
        ) as sender:  # fmt: skip
            assert sender.stdin is not None and sender.stdout is not None and sender.stderr is not None
            before = self._cpu_s()
            sender.stdin.write(json.dumps(asdict(spec)).encode())
            sender.stdin.close()
            output, errors = sender.stdout.read(), sender.stderr.read()
        if sender.returncode:
            raise LoadFailed(f"the load generator failed: {errors.decode(errors='replace')[-2000:]}")
        result = json.loads(output)
        used_s = {name: cpu_s - before[name] for name, cpu_s in self._cpu_s().items()}
        total, accepted = sum(result["statuses"].values()), result["statuses"].get("202", 0)
        cores = {name: used_s[name] / result["seconds"] for name in (view, "broker", "redis")}
        cores["load"] = result["cpu_s"] / result["seconds"]
        return Run(
            view, connections, accepted / result["seconds"], accepted / max(1, total), result["latencies_ms"],
            used_s[view] / max(1, total) * 1e6, cores,
        )  # fmt: skip

    def _cpu_s(self) -> dict[str, float]:
        return {name: sum(map(cpu_seconds, process_family(pid))) for name, pid in self.pids.items()}


def cores() -> int:
    return len(os.sched_getaffinity(0))
