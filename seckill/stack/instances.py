"""Shell: one process of a service: spawned, asked for its health, signalled, reaped.

Each holds a lock on a file in the run folder for as long as it lives, whoever started it: so a stack that starts where
another one was killed finds what that one left behind, and ends it. A pid alone would say nothing.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from seckill.stack.services import Layout, Service
from seckill.streams.faults import left_after
from seckill.streams.ready import READY_FILE

RESTART_S = 1.0
LONGEST_RESTART_S = 15.0
END_S = 10.0
STEADY_S = 30.0
"""A process that lived so long is no crash loop."""


@dataclass(slots=True)
class Instance:
    service: Service
    number: int
    layout: Layout
    process: subprocess.Popen[bytes] | None = None
    wanted: bool = True
    state: str = "waiting"  # waiting, starting, up, died, down
    missing: str = ""
    restarts: int = -1
    more: dict[str, str] = field(default_factory=dict)  # variables of its own
    lives: int = 0  # since they were given
    crashes: int = 0  # in a row
    born_at: float = 0.0
    again_at: float = 0.0
    log: Path = field(default_factory=Path)

    @property
    def name(self) -> str:
        return self.service.name if self.service.most == 1 else f"{self.service.name}.{self.number}"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def spawn(self) -> None:
        command, how = self.service.command(self.layout, self.number)
        mark = self.layout.run / f"{self.name}.ready"
        mark.unlink(missing_ok=True)
        self.log = self.layout.folder / "logs" / f"{self.name}.log"
        self.restarts += 1
        environment = self.layout.environment() | {READY_FILE: str(mark), "SECKILL_STACK_NAME": self.name}
        environment |= self.more
        if "SECKILL_FAULT" in environment:
            environment["SECKILL_FAULT"] = left_after(self.lives, environment["SECKILL_FAULT"])
        with open(self.log, "ab") as output, open(self.layout.run / f"{self.name}.pid", "a+") as held:
            _end(held)  # children of a process that died before them
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.truncate(0)
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment,
                start_new_session=True, pass_fds=(held.fileno(),), **how,
            )  # fmt: skip
            held.write(str(self.process.pid))
        self.lives += 1
        self.state, self.born_at = "starting", time.monotonic()

    def is_healthy(self) -> bool:
        self.missing = self.service.check(self.layout, self.name)() or ""
        if not self.missing:
            self.state = "up"
        return not self.missing

    def signal(self) -> None:
        """Ask it to stop, the way it wants to be asked."""
        if self.process is not None and self.is_running:
            self.process.send_signal(getattr(signal, self.service.stop_signal))

    def reap(self) -> bool:
        """Wait for its end; False if it had to be killed."""
        self.state = "down"
        if self.process is None:
            return True
        try:
            self.process.wait(self.service.stop_s)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
            return False
        return True

    def kill(self) -> None:
        """The hard way, with whatever it has started."""
        if self.process is not None and self.is_running:
            os.killpg(self.process.pid, signal.SIGKILL)

    def has_died(self, now: float) -> None:
        """It ended and nobody had asked for it: again in a moment, later each time if it keeps dying."""
        self.state = "died"
        self.crashes = 0 if now - self.born_at > STEADY_S else self.crashes + 1
        self.again_at = now + min(RESTART_S * 2 ** max(0, self.crashes - 1), LONGEST_RESTART_S)

    def row(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "state": self.state,
            "missing": self.missing,
            "pid": self.process.pid if self.process is not None and self.is_running else None,
            "restarts": max(0, self.restarts),
            "log": str(self.log),
        }


def end_leftovers(run: Path) -> list[str]:
    """End what a stack that did not end well has left running in this folder; their names."""
    with ExitStack() as open_files:
        held = [open_files.enter_context(open(path, "a+")) for path in sorted(run.glob("*.pid"))]
        left = [file for file in held if not _is_free(file)]
        for file in left:
            _signal(file, signal.SIGINT)  # a Postgres that is killed leaves a lock, which names its zombie
        _wait(left)
        for file in left:
            _end(file)
        return [Path(file.name).stem for file in left]


def _end(held: IO[str]) -> None:
    """Kill the processes that hold this file, if there are any."""
    if not _is_free(held):
        _signal(held, signal.SIGKILL)
        _wait([held])


def _signal(held: IO[str], number: signal.Signals) -> None:
    held.seek(0)
    pid = int(held.read() or 0)
    if pid > 1:
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            pass  # gone meanwhile


def _wait(held: Sequence[IO[str]]) -> None:
    deadline = time.monotonic() + END_S
    while not all(map(_is_free, held)) and time.monotonic() < deadline:
        time.sleep(0.02)


def _is_free(held: IO[str]) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(held, fcntl.LOCK_UN)
    return True
