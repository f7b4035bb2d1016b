"""Shell: mqcore as a child process of a test or a benchmark, with a free port and its own folder.

`stop` sends SIGTERM, `kill` sends SIGKILL.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from seckill.stack.child_processes import WaitTimeout, free_port, wait_until
from seckill.stack.health_checks import is_broker

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0


class BrokerFault(Exception):
    """The broker did not start, did not stop, or ended unexpectedly; the text has the end of its log."""


class BrokerProcess:
    """`mqcore serve`. The data folder outlives the process, so the broker can be started again on the same data."""

    start_seconds_max = START_SECONDS_MAX

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None, port: int | None = None) -> None:
        self.folder = folder
        self.port = free_port() if port is None else port
        self.settings = dict(settings or {})
        self.log_path = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def command(self) -> list[str]:
        settings = {"listeners": f"PLAINTEXT://{self.address}", **self.settings}
        command = [sys.executable, "-m", "mqcore", "serve", "--data", str(self.data)]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        return command

    def is_ready(self) -> bool:
        return is_broker(self.port)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        return self.launch().wait_until_ready()

    def launch(self) -> Self:
        """Start the process without waiting for it."""
        assert self._process is None, "the broker is already running"
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def wait_until_ready(self) -> Self:
        process = self._process
        assert process is not None, "the broker was not launched"
        try:
            wait_until(
                self.is_ready, "the broker to answer", self.start_seconds_max, poll_s=0.02,
                give_up_reason=lambda: None if process.poll() is None else f"it exited with {process.returncode}",
            )  # fmt: skip
        except WaitTimeout as fault:
            self.kill()
            raise BrokerFault(f"{fault}:\n{self.log[-4000:]}") from fault
        return self

    def stop(self) -> int:
        """SIGTERM: the broker closes its files first. Returns its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: the broker cannot flush or close anything."""
        self._end(signal.SIGKILL)

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def has_crashed(self) -> bool:
        """Whether the process ended without `stop` or `kill`."""
        return self._process is not None and self._process.poll() is not None

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerFault(
                f"still running {STOP_SECONDS_MAX:.0f} s after {number.name}:\n{self.log[-4000:]}"
            ) from None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
