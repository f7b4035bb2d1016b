"""Shell: what every program that starts servers needs: free ports, child processes that end with a block, waiting.

The stack, the demo, the faults, the benchmarks and the tests all use these functions, so a server is started, awaited
and stopped in one way everywhere.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any

from seckill.stack.health_checks import Check

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0
POLL_S = 0.05
PORT_MIN, PORT_MAX = 12_000, 32_000
"""Linux takes the ports of outgoing connections from 32768 on, so a server below gets its port back after a restart."""
LOG_CHARACTERS_MAX = 2000
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class WaitTimeout(TimeoutError):
    """A condition did not come true in time, or no longer can; the text says which and why."""


# ── ports ────────────────────────────────────────────────────────────────────────────────────────


def free_port() -> int:
    """A port that was free a moment ago; another process could still take it first."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Distinct ports that were free a moment ago."""
    found: set[int] = set()
    while len(found) < count:
        port = SystemRandom().randrange(PORT_MIN, PORT_MAX)
        if _is_free(port):
            found.add(port)
    return list(found)


def free_port_run(count: int) -> int:
    """The first of `count` consecutive ports that were free a moment ago, for servers that may stop and must get the
    same ports back."""
    while True:
        first = SystemRandom().randrange(PORT_MIN, PORT_MAX - count)
        if all(_is_free(port) for port in range(first, first + count)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports_from(first: int, run: int = 1) -> Iterator[int]:
    """The first ports of free runs of `run` ports each, in ascending order, for servers that stop and must get the same
    ports back."""
    port = first
    while port + run <= PORT_MAX:
        if all(_is_free(each) for each in range(port, port + run)):
            yield port
            port += run
        else:
            port += 1


# ── waiting ──────────────────────────────────────────────────────────────────────────────────────


def wait_until(
    holds: Callable[[], object],
    what: str,
    seconds_max: float = START_SECONDS_MAX,
    *,
    poll_s: float = POLL_S,
    give_up_reason: Callable[[], str | None] = lambda: None,
) -> float:
    """Poll until `holds`; returns time.perf_counter() of that moment. `WaitTimeout` after `seconds_max`, or as soon as
    `give_up_reason` returns a text."""
    deadline = time.monotonic() + seconds_max
    while not holds():
        reason = give_up_reason()
        if reason:
            raise WaitTimeout(f"stopped waiting for {what}: {reason}")
        if time.monotonic() > deadline:
            raise WaitTimeout(f"waited {seconds_max:.0f} s in vain for {what}")
        time.sleep(poll_s)
    return time.perf_counter()


# ── processes ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def running(
    name: str,
    command: Sequence[str],
    log: Path,
    check: Check | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    stop_signal: signal.Signals = signal.SIGTERM,
    stop_seconds_max: float = STOP_SECONDS_MAX,
    **popen_options: Any,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a child process during the block. It is healthy when the block begins, and appends its output to `log`."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env=None if environment is None else dict(environment), **popen_options,
        )  # fmt: skip

    def has_ended() -> str | None:
        return None if process.poll() is None else f"it exited with {process.returncode}; {tail(log)}"

    try:
        if check is not None:
            wait_until(lambda: check() is None, f"{name} to be ready", give_up_reason=has_ended)
        yield process
    finally:
        end_process(process, stop_signal, stop_seconds_max)


def end_process(
    process: subprocess.Popen[bytes],
    stop_signal: signal.Signals = signal.SIGTERM,
    seconds_max: float = STOP_SECONDS_MAX,
) -> bool:
    """Ask the process to stop and reap it; kill it after `seconds_max`. False if it had to be killed."""
    if process.poll() is None:
        process.send_signal(stop_signal)
    try:
        process.wait(seconds_max)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True


def tail(log: Path) -> str:
    """The end of a log, for an error message."""
    return log.read_text(errors="replace")[-LOG_CHARACTERS_MAX:] if log.exists() else f"{log} does not exist"


def granian_command(
    interface: str, port: int, application: str, *options: str, workers: int = 1, log_level: str = "warning"
) -> list[str]:
    """Serve an application over HTTP/1.1 only, because the limits on headers and streams of HTTP/2 and of WebSockets
    are different ones."""
    return [
        sys.executable, "-m", "granian", "--interface", interface, "--http", "1", "--no-ws", "--host", "127.0.0.1",
        "--port", str(port), "--workers", str(workers), "--log-level", log_level, *options, application,
    ]  # fmt: skip


def process_family(pid: int) -> list[int]:
    """A process and all its descendants."""
    family = [pid]
    for parent in family:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                family += [int(child) for child in children.read_text().split()]
            except OSError:
                pass  # the thread ended after the listing
    return family


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads, and of the children that it has reaped; 0 if the process is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS_PER_SECOND
