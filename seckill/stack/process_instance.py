"""Shell: one process of a service: start it, check its health, signal it, reap it.

Each process holds a lock on a file in the run folder until it ends. If a stack is killed, the next one in the same
folder finds the processes that still hold their locks, and stops them. A pid file alone would not do, because the
system may have given the pid to another program.
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

from seckill.messaging.fault_points import remaining_faults
from seckill.messaging.ready_file import READY_FILE
from seckill.stack.services import Layout, Service

RESTART_SECONDS_MIN, RESTART_SECONDS_MAX = 1.0, 15.0
LEFTOVER_STOP_SECONDS_MAX = 10.0
CRASH_LOOP_SECONDS_MAX = 30.0
"""A process that dies later than this after its start does not count as a crash loop."""


@dataclass(slots=True)
class Instance:
    service: Service
    number: int
    layout: Layout
    process: subprocess.Popen[bytes] | None = None
    wanted: bool = True
    state: str = "waiting"  # waiting, starting, up, died, down
    missing: str = ""  # what the health check still waits for
    restarts: int = -1
    variables: dict[str, str] = field(default_factory=dict)  # for this process only
    starts: int = 0  # since the variables were set
    crashes: int = 0  # in a row
    started_at: float = 0.0
    restart_at: float = 0.0
    log: Path = field(default_factory=Path)

    @property
    def name(self) -> str:
        return self.service.name if self.service.count_max == 1 else f"{self.service.name}.{self.number}"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def spawn(self) -> None:
        command, popen_options = self.service.command(self.layout, self.number)
        ready_file = self.layout.run / f"{self.name}.ready"
        ready_file.unlink(missing_ok=True)
        self.log = self.layout.folder / "logs" / f"{self.name}.log"
        self.restarts += 1
        environment = self.layout.environment(self.service.name)
        environment |= {READY_FILE: str(ready_file), "SECKILL_STACK_NAME": self.name}
        environment |= self.variables
        if "SECKILL_FAULT" in environment:
            environment["SECKILL_FAULT"] = remaining_faults(self.starts, environment["SECKILL_FAULT"])
        with open(self.log, "ab") as output, open(self.layout.run / f"{self.name}.pid", "a+") as lock_file:
            _kill_holders(lock_file)  # children that outlived a process that crashed
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock_file.truncate(0)
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment,
                start_new_session=True, pass_fds=(lock_file.fileno(),), **popen_options,
            )  # fmt: skip
            lock_file.write(str(self.process.pid))
        self.starts += 1
        self.state, self.started_at = "starting", time.monotonic()

    def is_healthy(self) -> bool:
        self.missing = self.service.check(self.layout, self.name)() or ""
        if not self.missing:
            self.state = "up"
        return not self.missing

    def signal(self) -> None:
        """Send the signal that stops this service in order."""
        if self.process is not None and self.is_running:
            self.process.send_signal(getattr(signal, self.service.stop_signal))

    def reap(self) -> bool:
        """Wait until the process has ended; False if it had to be killed."""
        self.state = "down"
        if self.process is None:
            return True
        try:
            self.process.wait(self.service.stop_seconds_max)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
            return False
        return True

    def kill(self) -> None:
        """SIGKILL for the process and everything that it has started."""
        if self.process is not None and self.is_running:
            os.killpg(self.process.pid, signal.SIGKILL)

    def record_death(self, now: float) -> None:
        """Schedule the restart after an unexpected end; the delay doubles while the process keeps crashing."""
        self.state = "died"
        self.crashes = 0 if now - self.started_at > CRASH_LOOP_SECONDS_MAX else self.crashes + 1
        self.restart_at = now + min(RESTART_SECONDS_MIN * 2 ** max(0, self.crashes - 1), RESTART_SECONDS_MAX)

    def status(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "state": self.state,
            "missing": self.missing,
            "pid": self.process.pid if self.process is not None and self.is_running else None,
            "restarts": max(0, self.restarts),
            "log": str(self.log),
        }


def end_leftovers(run: Path) -> list[str]:
    """Stop the processes of an earlier stack in this folder that was killed; returns their names."""
    with ExitStack() as open_files:
        lock_files = [open_files.enter_context(open(path, "a+")) for path in sorted(run.glob("*.pid"))]
        leftovers = [file for file in lock_files if not _is_unlocked(file)]
        for file in leftovers:
            _signal_holder(file, signal.SIGINT)  # SIGKILL would leave Postgres's own lock file behind
        _wait_until_unlocked(leftovers)
        for file in leftovers:
            _kill_holders(file)
        return [Path(file.name).stem for file in leftovers]


def _kill_holders(lock_file: IO[str]) -> None:
    """Kill the processes that hold this lock, if any."""
    if not _is_unlocked(lock_file):
        _signal_holder(lock_file, signal.SIGKILL)
        _wait_until_unlocked([lock_file])


def _signal_holder(lock_file: IO[str], number: signal.Signals) -> None:
    lock_file.seek(0)
    pid = int(lock_file.read() or 0)
    if pid > 1:
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            pass  # it has ended since


def _wait_until_unlocked(lock_files: Sequence[IO[str]]) -> None:
    deadline = time.monotonic() + LEFTOVER_STOP_SECONDS_MAX
    while not all(map(_is_unlocked, lock_files)) and time.monotonic() < deadline:
        time.sleep(0.02)


def _is_unlocked(lock_file: IO[str]) -> bool:
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(lock_file, fcntl.LOCK_UN)
    return True
