"""Shell: the servers, started for one measurement; each repetition fires at both views in turn, and reads the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from loadtest.broker.processes import cpu_seconds
from loadtest.gateway.firing import Spec
from seckill.stack import ready, servers, setup
from seckill.stack.broker import BrokerProcess, free_port
from seckill.stack.services import HTTP_1_ONLY, Layout, Ports

GATEWAY, BARE, WSGI = "gateway", "bare view", "bare view, WSGI"
SERVERS: dict[str, tuple[str, ...]] = {
    GATEWAY: ("rsgi", "seckill.rsgi:application", "--backpressure", "4096"),
    BARE: ("rsgi", "loadtest.gateway.bare:application", "--backpressure", "4096"),
    WSGI: ("wsgi", "loadtest.gateway.bare:wsgi", "--blocking-threads", "1"),
}
"""One thread: what never waits is slower on more."""
MOST = 768
"""So many may wait in the gateway at once (gateway/door.py)."""
START_S = 60.0
MOST_A_SECOND = 12_000
"""Requests prepared for each second: more than any of the two answers."""


class WorldFault(Exception):
    """A server that did not start, or a load that failed; carries the end of what it said."""


@dataclass(slots=True)
class Run:
    """One load on one view."""

    view: str
    connections: int
    accepted_s: float
    share_accepted: float
    latencies_ms: dict[str, float]
    cpu_us: float  # of the server, for each request
    cores: dict[str, float] = field(default_factory=dict)  # who was busy


class World:
    """Postgres, Redis, mqcore and both views; no consumers, so that nothing else uses the machine."""

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        self._folder = folder
        self._tell = tell
        self._ports = {name: free_port() for name in (*Ports().all(), BARE, WSGI)}
        ports = Ports(**{name: self._ports[name] for name in Ports().all()})
        self._layout = Layout(folder, ports)
        self._pids: dict[str, int] = {}
        self.sale = 0

    @property
    def environment(self) -> dict[str, str]:
        return self._layout.environment()

    @contextmanager
    def running(self) -> Iterator[World]:
        with ExitStack() as stack:
            ports = self._layout.ports
            self._tell("start Postgres, Redis, mqcore")
            servers.init_postgres(self._folder / "postgres")
            command, how = servers.postgres_command(self._folder / "postgres", ports.postgres)
            database = ready.postgres(f"postgresql://seckill@127.0.0.1:{ports.postgres}/postgres")
            stack.enter_context(self._process("postgres", command, database, **how))
            redis = servers.redis_command(self._folder / "redis", ports.redis)
            stack.enter_context(self._process("redis", redis, ready.redis(f"redis://127.0.0.1:{ports.redis}/0")))
            broker = BrokerProcess(self._folder / "mqcore", {"auto.create.topics.enable": "false"})
            broker.port = ports.broker
            self._pids["broker"] = stack.enter_context(broker).pid
            self._tell("make tables, topics and a sale")
            setup.prepare(self._layout, self._tell)
            self.sale = self._create_sale()
            for view, (interface, *served) in SERVERS.items():
                self._tell(f"start the {view}")
                port = self._ports[view]
                command = [
                    sys.executable, "-m", "granian", "--interface", interface, *HTTP_1_ONLY, "--host", "127.0.0.1",
                    "--port", str(port), "--workers", "1", "--log-level", "warning", *served,
                ]  # fmt: skip
                check = ready.http(f"http://127.0.0.1:{port}/{'readyz' if view == GATEWAY else 'livez'}")
                stack.enter_context(self._process(view, command, check, env=self.environment))
            yield self

    def _create_sale(self) -> int:
        command = [sys.executable, "-m", "django", "sale", "create", "--name", "Gong", "--sku", "phone"]
        made = subprocess.run([*command, "--units", "1000000"], env=self.environment, capture_output=True, text=True)
        if made.returncode:
            raise WorldFault(made.stderr[-2000:])
        return int(json.loads(made.stdout)["sale"])

    @contextmanager
    def _process(self, name: str, command: Sequence[str], missing: ready.Check, **how: Any) -> Iterator[None]:
        log = self._folder / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **how)
        try:
            deadline = time.monotonic() + START_S
            while missing() is not None:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise WorldFault(f"{name} did not start: {log.read_text()[-2000:]}")
                time.sleep(0.05)
            self._pids[name] = process.pid
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def fire(self, view: str, users: str, seconds: float, connections: int) -> Run:
        from seckill.environment import DEVELOPMENT_SECRET

        requests = int(seconds * MOST_A_SECOND)
        spec = Spec(self._ports[view], self.sale, DEVELOPMENT_SECRET, users, requests, connections, seconds)
        with subprocess.Popen(
            [sys.executable, "-m", "loadtest.gateway.firing"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment,
        ) as crowd:  # fmt: skip
            assert crowd.stdin is not None and crowd.stdout is not None and crowd.stderr is not None
            before = self._cpu()
            crowd.stdin.write(json.dumps(asdict(spec)).encode())
            crowd.stdin.close()
            told, complaint = crowd.stdout.read(), crowd.stderr.read()
        if crowd.returncode:
            raise WorldFault(f"the load failed: {complaint.decode(errors='replace')[-2000:]}")
        shots = json.loads(told)
        used = {name: cpu - before[name] for name, cpu in self._cpu().items()}
        total, accepted = sum(shots["answers"].values()), shots["answers"].get("202", 0)
        cores = {name: used[name] / shots["seconds"] for name in (view, "broker", "redis")}
        cores["load"] = shots["cpu_s"] / shots["seconds"]
        return Run(
            view, connections, accepted / shots["seconds"], accepted / max(1, total), shots["latencies_ms"],
            used[view] / max(1, total) * 1e6, cores,
        )  # fmt: skip

    def _cpu(self) -> dict[str, float]:
        return {name: sum(map(cpu_seconds, _family(pid))) for name, pid in self._pids.items()}


def _family(pid: int) -> list[int]:
    """The process and all it has started."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(each for path in children for child in path.read_text().split() for each in _family(int(child)))]


def cores() -> int:
    return len(os.sched_getaffinity(0))
