"""Shell: the processes of a demo: a stack in a folder of its own, a crowd, the report. What was started is ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from seckill.stack import control, ready
from seckill.stack.broker import free_port
from seckill.stack.services import ROOT, Layout, Ports

START_S = 180.0
STOP_S = 120.0
LOOK_S = 0.1


class DemoFault(Exception):
    """The demo itself could not go on; says nothing of the sale."""


class Stage:
    def __init__(self, folder: Path, scale: Mapping[str, int], payment_ttl_s: int, *fault_points: str) -> None:
        self.folder = folder.absolute()
        self._scale = scale
        # Each buyer comes from an address of his own, so the crowd, on this machine, may say whose it is.
        self._settings = {
            "SECKILL_TRUSTED_PROXIES": "127.0.0.1",
            "SECKILL_PAYMENT_TTL_S": str(payment_ttl_s),
            "SECKILL_FAULT": ",".join(fault_points),
        }
        self.layout = Layout(self.folder, Ports(**_ports()))
        self._children: list[subprocess.Popen[bytes]] = []
        self._stack: subprocess.Popen[bytes] | None = None

    # ── the stack ────────────────────────────────────────────────────────────────────────────────

    def up(self) -> None:
        self.folder.mkdir(parents=True)
        words = ["up", "--data", str(self.folder)]
        words += [part for name, port in self.layout.ports.all().items() for part in ("--port", f"{name}={port}")]
        words += [part for name, count in self._scale.items() for part in ("--scale", f"{name}={count}")]
        self._stack = self.spawn("up", "seckill.cli", *words, environment=self._settings)
        deadline = time.monotonic() + START_S
        while "up: http" not in self.said("up"):
            if self._stack.poll() is not None:
                raise DemoFault(f"the stack did not start:\n{self.said('up')[-2000:]}")
            if time.monotonic() > deadline:
                raise DemoFault(f"the stack is not up after {START_S:.0f} s; see {self.folder / 'up.log'}")
            time.sleep(LOOK_S)

    def down(self) -> None:
        """Everything that was started, the stack last, in its own order."""
        for child in reversed(self._children):
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
                try:
                    child.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()

    def kill(self, name: str) -> int:
        """kill -9 of a service's processes; how many there were."""
        instance = re.compile(rf"{re.escape(name)}(\.\d+)?")
        rows = self._word("status")["instances"]
        running = [row for row in rows if row["pid"] and instance.fullmatch(row["name"])]
        self._word("kill", name=name)
        return len(running)

    def restarts(self, name: str) -> int:
        rows = self._word("status")["instances"]
        return sum(row["restarts"] for row in rows if row["name"] == name)

    def _word(self, word: str, **order: Any) -> dict[str, Any]:
        try:
            answer = control.ask(self.layout, {"word": word, **order})
        except OSError as error:
            raise DemoFault(f"the stack does not answer: {error}; see {self.folder / 'up.log'}") from error
        if "error" in answer:
            raise DemoFault(str(answer["error"]))
        return answer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.layout.ports.gateway}"

    @property
    def evidence(self) -> Path:
        return self.folder / "evidence"

    def database(self) -> psycopg.Connection:
        return psycopg.connect(self.addresses()["SECKILL_DATABASE_URL"], autocommit=True, connect_timeout=5)

    def addresses(self) -> dict[str, str]:
        """As the stack has written them down."""
        written: dict[str, str] = json.loads((self.layout.run / "environment.json").read_text())
        return written

    # ── programs ─────────────────────────────────────────────────────────────────────────────────

    def spawn(
        self, name: str, module: str, *words: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """A program that goes on beside us; what it says is in `name`.log."""
        with (self.folder / f"{name}.log").open("ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", module, *words], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, env={**_bare(), **(environment or {})},
            )  # fmt: skip
        self._children.append(child)
        return child

    def run(self, module: str, *words: str, may_end_with: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True, env=_bare())
        if done.returncode not in may_end_with:
            raise DemoFault(f"{module} {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
        return done

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    # ── the sale and what is planned for it ──────────────────────────────────────────────────────

    def create_sale(self, units: int, opens_in_s: float) -> int:
        words = ["sale", "create", "--name", "Gong", "--sku", "phone", "--price", "9900", "--units", str(units)]
        made = self.run(
            "seckill.cli", "manage", "--data", str(self.folder), *words, "--opens-in", str(opens_in_s)
        )  # fmt: skip
        return int(json.loads(made.stdout)["sale"])

    def plan_faults(self, *faults: str) -> None:
        """Declared before they happen: if one then does not, the report says so."""
        self.evidence.mkdir(exist_ok=True)
        manifest = {"version": 1, "runs": [], "off": ["analytics"], "faults": list(faults)}
        (self.evidence / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")

    def note_fault(self, fault: str, at_ms: int, **more: Any) -> None:
        with (self.evidence / "faults.jsonl").open("a") as log:
            log.write(json.dumps({"at_ms": at_ms, "until_ms": time.time_ns() // 1_000_000, "fault": fault, **more}))
            log.write("\n")


def _ports() -> dict[str, int]:
    """The gateway's usual one, if nobody has it: there somebody may want to look. The others anywhere."""
    usual = Ports().gateway
    anywhere = {name: free_port() for name in Ports().all()}
    return anywhere | ({"gateway": usual} if ready.free(usual) is None else {})


def _bare() -> dict[str, str]:
    """Without what would point at somebody else's servers: a demo has its own. With this project in every folder."""
    names = [name for name in os.environ if not name.startswith(("SECKILL_", "KAFKA_"))]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {name: os.environ[name] for name in names} | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
