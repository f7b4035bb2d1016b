"""Shell: the broker as a process on this machine.

It gets a free port and a folder of its own, is ready when it answers its first request, and is ended by its own pid:
`stop` asks politely, `kill` does not.
"""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0

# ApiVersions 0, correlation id 7, no client id: the first thing that any client says.
_HELLO = struct.pack(">ihhih", 10, 18, 0, 7, -1)


class BrokerFault(Exception):
    """The broker did not start, did not stop, or ended by itself; carries the end of its log."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Whether somebody at the port answers ApiVersions."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.settimeout(5)
            connection.sendall(_HELLO)
            head = connection.recv(8, socket.MSG_WAITALL)
            return len(head) == 8 and struct.unpack(">ii", head)[1] == 7
    except OSError:
        return False


class BrokerProcess:
    """`mqcore serve` as a child process. The data folder outlives the process, so that it can be started again."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
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
        command = [sys.executable, "-m", "mqcore", "serve", "--listen", self.address, "--data", str(self.data)]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        return command

    def is_ready(self) -> bool:
        return answers(self.port)

    def start(self) -> Self:
        assert self._process is None, "the broker is running already"
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        give_up = time.monotonic() + START_TIMEOUT_S
        while not self.is_ready():
            if self._process.poll() is not None:
                code, self._process = self._process.returncode, None
                raise BrokerFault(f"ended with {code} before it answered:\n{self.log[-4000:]}")
            if time.monotonic() > give_up:
                self.kill()
                raise BrokerFault(f"did not answer within {START_TIMEOUT_S:.0f} s:\n{self.log[-4000:]}")
            time.sleep(0.02)
        return self

    def stop(self) -> int:
        """SIGTERM, and the exit code of a broker that was given time to end well."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: no destructor, no flush, no goodbye."""
        self._end(signal.SIGKILL)

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def ended_by_itself(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(how)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerFault(f"still there {STOP_TIMEOUT_S:.0f} s after {how.name}:\n{self.log[-4000:]}") from None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
