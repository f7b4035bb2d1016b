"""Shell: a whole stack as a child process: `seckill up` in its own folder, stopped in order at the end.

The demo, the faults, the comparison of designs and the journeys run on one. It inherits no SECKILL_ or KAFKA_ variable,
so nothing in the caller's environment can point it at other servers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from seckill.config.kafka_properties import read_kafka_config
from seckill.stack import control
from seckill.stack.child_processes import end_process, wait_until
from seckill.stack.control import StackFault
from seckill.stack.services import ROOT, Layout, Ports

START_SECONDS_MAX = 240.0
STOP_SECONDS_MAX = 120.0
WAIT_SECONDS_MAX = 240.0
POLL_S = 0.1
STARTED = "up: http"


class StackProcess:
    """`kafka` is the address of a cluster to use instead of mqcore, `kafka_config` its client.properties. `more` are
    further words for `seckill up`; `prefix` is a command to run it under, e.g. `unshare -U`."""

    def __init__(
        self,
        folder: Path,
        ports: Ports,
        settings: Mapping[str, str] | None = None,
        scale: Mapping[str, int] | None = None,
        *,
        brokers: int = 1,
        kafka: str | None = None,
        kafka_config: Path | None = None,
        more: Sequence[str] = ("--empty",),
        prefix: Sequence[str] = (),
        cwd: Path | None = None,
    ) -> None:
        self.folder = folder.absolute()
        config = None if kafka_config is None else read_kafka_config(kafka_config)
        self.layout = Layout(self.folder, ports, kafka, brokers, config)
        external = {"--kafka": kafka, "--kafka-config": kafka_config}
        self._external = [str(word) for option, value in external.items() if value for word in (option, value)]
        self.started_with = clean_environment() | dict(settings or {})
        self._scale = dict(scale or {})
        self._more, self._prefix, self._cwd = tuple(more), tuple(prefix), cwd
        self._process: subprocess.Popen[bytes] | None = None

    # ── start and stop ───────────────────────────────────────────────────────────────────────────

    def command(self) -> list[str]:
        ports = [part for name, port in self.layout.ports.all().items() for part in ("--port", f"{name}={port}")]
        scale = [part for name, count in self._scale.items() for part in ("--scale", f"{name}={count}")]
        command = [sys.executable, "-m", "seckill.cli", "up", "--data", str(self.folder), *ports, *scale]
        brokers = self._external or ["--brokers", str(self.layout.brokers)]
        return [*self._prefix, *command, *brokers, *self._more]

    def start(self) -> None:
        """Start it and wait until everything is up; the error has the end of its output."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                cwd=self._cwd, env=self.started_with,
            )  # fmt: skip
        try:
            self.wait_until(lambda: STARTED in self.output_text, "the stack to be up", START_SECONDS_MAX)
        except TimeoutError as fault:
            self.stop()
            raise StackFault(f"{fault}\n{self.output_text[-2000:]}") from fault

    def stop(self) -> int:
        """Stop it as Ctrl-C would, and kill it if that takes too long; its exit code."""
        if self._process is None:
            return 0
        end_process(self._process, signal.SIGINT, STOP_SECONDS_MAX)
        return self._process.returncode

    def kill(self) -> None:
        """kill -9 of `seckill up` itself, so that it cannot stop its processes."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def wait_until(
        self, holds: Callable[[], object], what: str, seconds_max: float = WAIT_SECONDS_MAX, poll_s: float = POLL_S
    ) -> None:
        """`WaitTimeout` after `seconds_max`, or as soon as the stack itself has ended."""

        def give_up_reason() -> str | None:
            return f"`seckill up` has ended; see {self.output}" if self.has_ended else None

        wait_until(holds, what, seconds_max, poll_s=poll_s, give_up_reason=give_up_reason)

    # ── what it wrote ────────────────────────────────────────────────────────────────────────────

    @property
    def output(self) -> Path:
        return self.folder / "up.log"

    @property
    def output_text(self) -> str:
        return self.output.read_text(errors="replace")

    @property
    def evidence(self) -> Path:
        return self.folder / "evidence"

    @property
    def gateway(self) -> str:
        return f"http://127.0.0.1:{self.layout.ports.gateway}"

    def addresses(self) -> dict[str, str]:
        """Environment variables for a program that works with this stack, passwords included."""
        addresses: dict[str, str] = json.loads((self.layout.run / "environment.json").read_text())
        return addresses

    def login(self, principal: str) -> dict[str, str]:
        """How a program that plays this service logs in to an external Kafka."""
        config = self.layout.kafka_config
        return {} if config is None else config.variables_of(principal)

    def sandbox_log(self, name: str) -> list[dict[str, Any]]:
        """What the payment provider (`provider`) or the message sinks (`sinks`) have recorded."""
        lines = (self.folder / "sandbox" / f"{name}.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    # ── commands ─────────────────────────────────────────────────────────────────────────────────

    def send(self, command: str, **arguments: Any) -> dict[str, Any]:
        """A command to the supervisor, such as `send("stop", name="inventory")`; `StackFault` if it fails."""
        try:
            reply = control.send_command(self.layout, {"command": command, **arguments})
        except OSError as error:
            raise StackFault(f"the stack does not answer: {error}; see {self.output}") from error
        if "error" in reply:
            raise StackFault(f"{command} {arguments}: {reply['error']}")
        return reply

    def processes(self) -> dict[str, dict[str, Any]]:
        """The status of each process (state, pid, restarts) by its name."""
        return {each["name"]: each for each in self.send("status")["instances"]}

    def seckill(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `seckill --data FOLDER WORDS`, as an operator of this stack would."""
        command = [sys.executable, "-m", "seckill.cli", "--data", str(self.folder), *words]
        return subprocess.run(
            command, capture_output=True, text=True, env=clean_environment(), timeout=WAIT_SECONDS_MAX
        )

    def operate(self, *words: str) -> str:
        """The output of `seckill WORDS` on this stack; `StackFault` if it fails."""
        done = self.seckill(*words)
        if done.returncode:
            raise StackFault(f"seckill {' '.join(words)} failed: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def create_sale(self, units: int, **options: object) -> int:
        return create_sale(self.addresses(), units, **options)


def run_module(environment: Mapping[str, str], module: str, *words: str) -> str:
    """`python -m MODULE WORDS` in a process with these variables; its output. A stack in the working folder is ignored,
    so that none of its addresses mixes with these."""
    fixed = {"DJANGO_SETTINGS_MODULE": "seckill.config.settings", "SECKILL_DATA": os.devnull}
    variables = clean_environment() | fixed | dict(environment)
    command = [sys.executable, "-m", module, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=WAIT_SECONDS_MAX)
    if done.returncode:
        raise StackFault(f"{module} {' '.join(words)} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def create_sale(environment: Mapping[str, str], units: int, **options: object) -> int:
    """Create a sale of phones, open now unless `options` such as `opens_in=8` or `cap=2` say otherwise; its number."""
    words = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    output = run_module(
        environment, "seckill.cli", "sale", "create", "--name", "Gong", "--sku", "phone", "--units", str(units), *words
    )
    return int(json.loads(output)["sale"])


def clean_environment() -> dict[str, str]:
    """This process's environment without addresses of other servers, and with this project on the Python path."""
    names = [name for name in os.environ if not name.startswith(("SECKILL_", "KAFKA_"))]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {name: os.environ[name] for name in names} | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
