"""Shell: a whole stack as a process of ours: `seckill up` in a folder of its own, ended in order whatever happens.

The demo and the faults run on one. Nothing of the caller's environment can point it at somebody else's servers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seckill.stack import control
from seckill.stack.control import StackFault
from seckill.stack.services import ROOT, Layout, Ports

START_S = 240.0
STOP_S = 120.0
LOOK_S = 0.1


class StackProcess:
    def __init__(
        self, folder: Path, ports: Ports, settings: Mapping[str, str], scale: Mapping[str, int] | None = None
    ) -> None:
        self.folder = folder.absolute()
        self.layout = Layout(self.folder, ports)
        self.started_with = bare() | dict(settings)
        self._scale = dict(scale or {})
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """All of it is up; or `StackFault` with what it said."""
        self.folder.mkdir(parents=True, exist_ok=True)
        ports = [part for name, port in self.layout.ports.all().items() for part in ("--port", f"{name}={port}")]
        scale = [part for name, count in self._scale.items() for part in ("--scale", f"{name}={count}")]
        with self.output.open("wb") as told:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "seckill.cli", "up", "--data", str(self.folder), *ports, *scale],
                stdin=subprocess.DEVNULL, stdout=told, stderr=told, start_new_session=True,
                env=self.started_with,
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while b"up: http" not in self.output.read_bytes():
            if not self.is_running:
                raise StackFault(f"the stack did not start:\n{self.output.read_text(errors='replace')[-2000:]}")
            if time.monotonic() > deadline:
                raise StackFault(f"the stack is not up after {START_S:.0f} s; see {self.output}")
            time.sleep(LOOK_S)

    def stop(self) -> None:
        """In its own order; one that does not hear is killed."""
        if self._process is None or not self.is_running:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def has_ended(self) -> bool:
        """By itself: it had been started, and is not there any more."""
        return self._process is not None and self._process.poll() is not None

    @property
    def output(self) -> Path:
        return self.folder / "up.log"

    @property
    def evidence(self) -> Path:
        return self.folder / "evidence"

    @property
    def gateway(self) -> str:
        return f"http://127.0.0.1:{self.layout.ports.gateway}"

    def addresses(self) -> dict[str, str]:
        """As the stack has written them down."""
        written: dict[str, str] = json.loads((self.layout.run / "environment.json").read_text())
        return written

    def word(self, word: str, **order: Any) -> dict[str, Any]:
        """What it answers; `StackFault` if it refuses, or is not there."""
        try:
            answer = control.ask(self.layout, {"word": word, **order})
        except OSError as error:
            raise StackFault(f"the stack does not answer: {error}; see {self.output}") from error
        if "error" in answer:
            raise StackFault(f"{word} {order}: {answer['error']}")
        return answer

    def rows(self) -> dict[str, dict[str, Any]]:
        """Its processes, by name."""
        return {row["name"]: row for row in self.word("status")["instances"]}


def bare() -> dict[str, str]:
    """Without what would point at somebody else's servers: they are not ours. With this project in every folder."""
    names = [name for name in os.environ if not name.startswith(("SECKILL_", "KAFKA_"))]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {name: os.environ[name] for name in names} | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
