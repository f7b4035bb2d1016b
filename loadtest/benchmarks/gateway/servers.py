"""Shell: the servers that are compared, and the load generators as child processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from loadtest.benchmarks.machine import resident_mb
from seckill.config.environment import DEVELOPMENT_SECRET
from seckill.stack import health_checks
from seckill.stack.child_processes import (
    cpu_seconds,
    end_process,
    free_port,
    granian_command,
    process_family,
    running,
    tail,
    wait_until,
)
from seckill.stack.server_set import ServerSet
from seckill.stack.services import ROOT

CONNECTIONS = 4096
"""The gateway's default (SECKILL_GATEWAY_CONNECTIONS)."""
DEADLINE_S = 24 * 3600
"""Nothing consumes the queue here. With the usual deadline of ten minutes, the gateway would refuse after that time."""
Announce = Callable[[str], None]


class LoadFailed(Exception):
    """A load generator or a tool failed; the text has the end of its output."""


class View(NamedTuple):
    """A server that is compared. `folder`: where its code is, if it is not this project's."""

    name: str
    interface: str
    application: str
    options: tuple[str, ...]
    health_path: str = "livez"
    environment: Mapping[str, str] = {}
    folder: Path | None = None

    @property
    def sells(self) -> bool:
        return self.health_path == "readyz"


def gateway(connections: int = CONNECTIONS) -> View:
    environment = {} if connections == CONNECTIONS else {"SECKILL_GATEWAY_CONNECTIONS": str(connections)}
    return View(GATEWAY, "rsgi", "gateway.app:application", _backpressure(connections), "readyz", environment)


def _backpressure(connections: int) -> tuple[str, ...]:
    return ("--backlog", "2048", "--backpressure", str(connections))


GATEWAY, BARE, WSGI = "gateway", "bare view", "bare view, WSGI"
BARE_VIEWS = (
    View(BARE, "rsgi", "loadtest.benchmarks.gateway.bare:application", _backpressure(CONNECTIONS)),
    View(WSGI, "wsgi", "loadtest.benchmarks.gateway.bare:wsgi", ("--blocking-threads", "1")),
)
"""WSGI with one thread, because a view that never waits is slower with more."""


def export_gateway(revision: str, folder: Path) -> View:
    """The gateway of another commit, from an export of its files. It runs with this environment's Python."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    name = _run("git", "-C", str(ROOT), "rev-parse", "--short=10", f"{revision}^{{commit}}")
    _run("git", "-C", str(ROOT), "archive", "--output", str(archive), name)
    _run("tar", "-x", "-f", str(archive), "-C", str(folder))
    module = "app" if (folder / "gateway" / "app.py").exists() else "rsgi"
    application = f"gateway.{module}:application"
    return View(f"gateway at {name}", "rsgi", application, _backpressure(CONNECTIONS), "readyz", {}, folder)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LoadFailed(f"{' '.join(command[:4])} failed: {done.stderr.strip()[-500:]}")
    return done.stdout.strip()


class GatewayServers(ServerSet):
    """Postgres, Redis, mqcore and the views. There are no consumers, so nothing else uses the machine."""

    def __init__(self, folder: Path, views: Sequence[View], announce: Announce) -> None:
        super().__init__(folder)
        self._views, self._announce = views, announce
        self.ports: dict[str, int] = {}
        self.sale = 0

    def environment(self) -> dict[str, str]:
        return super().environment() | {"SECKILL_PURCHASE_DEADLINE_S": str(DEADLINE_S)}

    def _start(self) -> None:
        self._announce("start Postgres, Redis and mqcore; create tables and topics")
        super()._start()
        for view in self._views:
            self._announce(f"start the {view.name}")
            self.pids[view.name] = self._open.enter_context(self._view(view)).pid
        # After the gateways, so that Redis remembers all requests since the opening, as it does in a sale.
        self.sale = self.create_sale(1_000_000)
        for view in self._views:
            if view.sells:
                check = health_checks.http(f"http://127.0.0.1:{self.ports[view.name]}/api/v1/sales/{self.sale}")
                wait_until(lambda check=check: check() is None, f"the {view.name} to know the sale")  # type: ignore[misc]

    @contextmanager
    def _view(self, view: View) -> Iterator[subprocess.Popen[bytes]]:
        port = self.ports[view.name] = free_port()
        environment = {**self.environment(), **view.environment}
        if view.folder is not None:
            environment["PYTHONPATH"] = str(view.folder)
        with running(
            view.name, granian_command(view.interface, port, view.application, *view.options),
            self.folder / f"{view.name}.log", health_checks.http(f"http://127.0.0.1:{port}/{view.health_path}"),
            environment=environment, cwd=view.folder or ROOT,
        ) as process:  # fmt: skip
            yield process

    # ── measuring ────────────────────────────────────────────────────────────────────────────────

    def target(self, view: str) -> dict[str, Any]:
        """What every load generator must know."""
        return {"port": self.ports[view], "sale": self.sale, "secret": DEVELOPMENT_SECRET}

    def generate(self, module: str, spec: Any) -> dict[str, Any]:
        """The result of a load generator."""
        with self.generator(module, asdict(spec)) as load:
            return load.result()

    @contextmanager
    def generator(self, module: str, spec: Mapping[str, Any]) -> Iterator[Generator]:
        """A load generator with several steps."""
        log = self.folder / f"{module}.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", f"loadtest.benchmarks.gateway.{module}"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=self.environment(),
            )  # fmt: skip
        try:
            generator = Generator(process, log)
            generator.send(spec)
            yield generator
        finally:
            end_process(process)
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()

    def cpu_s(self) -> dict[str, float]:
        return {name: sum(map(cpu_seconds, process_family(pid))) for name, pid in self.pids.items()}

    def resident_mb(self, name: str) -> float:
        """Of all processes of a server; memory that they share counts in each."""
        return sum(map(resident_mb, process_family(self.pids[name])))


class Generator:
    """A load generator from the benchmark's side; its own side is in `http_load`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._stdin, self._stdout, self._log = process.stdin, process.stdout, log

    def send(self, spec: Mapping[str, Any]) -> None:
        self._stdin.write(json.dumps(spec).encode() + b"\n")
        self._stdin.flush()

    def allow(self) -> None:
        """Let it begin its next step."""
        self._stdin.write(b"\n")
        self._stdin.flush()

    def result(self) -> dict[str, Any]:
        """The result of its current step. Raises `LoadFailed`."""
        line = self._stdout.readline()
        if not line:
            raise LoadFailed(f"the load generator failed: {tail(self._log)}")
        found: dict[str, Any] = json.loads(line)
        return found


def cores() -> int:
    return len(os.sched_getaffinity(0))
