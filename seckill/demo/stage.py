"""Shell: the processes of a demo: a stack in a folder of its own, a crowd, the report. What was started is ended."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from seckill.stack import ready
from seckill.stack.broker import free_port
from seckill.stack.process import STOP_S, StackProcess, bare
from seckill.stack.services import Ports


class DemoFault(Exception):
    """The demo itself could not go on; says nothing of the sale."""


class Stage(StackProcess):
    def __init__(self, folder: Path, scale: Mapping[str, int], payment_ttl_s: int, *fault_points: str) -> None:
        # Each buyer comes from an address of his own, so the crowd, on this machine, may say whose it is.
        settings = {
            "SECKILL_TRUSTED_PROXIES": "127.0.0.1",
            "SECKILL_PAYMENT_TTL_S": str(payment_ttl_s),
            "SECKILL_FAULT": ",".join(fault_points),
        }
        super().__init__(folder, Ports(**_ports()), settings, scale)
        self._children: list[subprocess.Popen[bytes]] = []

    # ── the stack ────────────────────────────────────────────────────────────────────────────────

    def down(self) -> None:
        """Everything that was started, the stack last."""
        for child in reversed(self._children):
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
                try:
                    child.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
        self.stop()

    def kill(self, name: str) -> int:
        """kill -9 of a service's processes; how many there were."""
        instance = re.compile(rf"{re.escape(name)}(\.\d+)?")
        running = [row for row in self.rows().values() if row["pid"] and instance.fullmatch(row["name"])]
        self.word("kill", name=name)
        return len(running)

    def restarts(self, name: str) -> int:
        return sum(row["restarts"] for row in self.rows().values() if row["name"] == name)

    def database(self) -> psycopg.Connection:
        return psycopg.connect(self.addresses()["SECKILL_DATABASE_URL"], autocommit=True, connect_timeout=5)

    # ── programs ─────────────────────────────────────────────────────────────────────────────────

    def spawn(
        self, name: str, module: str, *words: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """A program that goes on beside us; what it says is in `name`.log."""
        with (self.folder / f"{name}.log").open("ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", module, *words], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, env={**bare(), **(environment or {})},
            )  # fmt: skip
        self._children.append(child)
        return child

    def run(self, module: str, *words: str, may_end_with: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True, env=bare())
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

    def declare(self, *faults: str, off: Sequence[str] = ()) -> None:
        """Faults, before they happen: if one then does not, the report says so. And what there is none of."""
        self.evidence.mkdir(exist_ok=True)
        manifest = {"version": 1, "runs": [], "off": list(off), "faults": list(faults)}
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
