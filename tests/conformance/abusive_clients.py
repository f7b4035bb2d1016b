"""Clients that send too much, too slowly or nothing, a well-behaved client beside them, and the memory of the broker.

The tests use small numbers. `ABUSE=20 pytest tests/conformance -k abuse -s` multiplies them (20 sends a million
malformed frames) and prints what was measured.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import socket
import statistics
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from seckill.stack.broker_process import BrokerProcess
from tests.conformance.raw import (
    Wire,
    framed,
)

API_VERSIONS, HEARTBEAT, SYNC_GROUP = 18, 12, 14
TIMES = int(os.environ.get("ABUSE", "1"))
SOCKETS = min(500 * TIMES, 2000)
MANY = {"max_connections_per_ip": "4000", "max_connections": "4000"}
HELLO = framed(18, 0, 1, b"")
"""ApiVersions: a first request, after which larger ones are taken."""
MIB = 1 << 20


def resident(broker: BrokerProcess) -> int:
    return int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1]) * resource.getpagesize()


class Peak:
    """The peak memory of the broker (VmHWM) since this object was created, above what it had then."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        Path(f"/proc/{broker.pid}/clear_refs").write_text("5")
        self._before = self._read()

    def _read(self) -> int:
        status = Path(f"/proc/{self._broker.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10  # type: ignore[index]

    def grown(self, what: str) -> int:
        grown = self._read() - self._before
        print(f"{what}: {grown / MIB:.1f} MiB")
        return grown


def open_files(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def wait_until(true: Callable[[], bool], what: str, within_s: float = 30.0) -> None:
    give_up = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < give_up, what
        time.sleep(0.02)


def assert_healthy(broker: BrokerProcess) -> None:
    """The broker runs, answers, and has no traceback in its log."""
    assert not broker.has_crashed(), broker.log[-3000:]
    with Wire(broker.port) as wire:
        assert wire.ask(API_VERSIONS, 0, b"").error_code == 0
    assert "Traceback" not in broker.log and "trace=" not in broker.log, broker.log[-3000:]


class ClientSockets:
    """Many sockets, which are closed at the end."""

    def __init__(self, broker: BrokerProcess, count: int, *, receive_bytes: int | None = None) -> None:
        """`receive_bytes`: the receive buffer. If it is small, the broker notices sooner that the client does not
        read."""
        self.opened: list[socket.socket] = []
        for _ in range(count):
            self.opened.append(one := socket.socket())
            one.settimeout(20)
            if receive_bytes is not None:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            one.connect(("127.0.0.1", broker.port))

    def all_send(self, data: bytes) -> None:
        for each in self.opened:
            with contextlib.suppress(ConnectionError):
                each.sendall(data)

    def __enter__(self) -> ClientSockets:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.opened:
            each.close()


class WellBehavedClient(threading.Thread):
    """A client that produces and fetches all the time, and measures how long that takes."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        super().__init__(daemon=True)
        self._port, self._topic = broker.port, topic
        self._over = threading.Event()
        self.seconds: list[float] = []
        self.failed: str | None = None

    def run(self) -> None:
        try:
            with Wire(self._port) as wire:
                wire.create(self._topic)
                while not self._over.wait(0.005):
                    began = time.monotonic()
                    offset = wire.produce(self._topic).base_offset
                    assert wire.fetch(self._topic, offset).records
                    self.seconds.append(time.monotonic() - began)
        except Exception as fault:
            self.failed = repr(fault)

    def __enter__(self) -> WellBehavedClient:
        self.start()
        wait_until(lambda: bool(self.seconds) or self.failed is not None, "the well-behaved client gets no answer")
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(30)
        assert self.failed is None, self.failed
        if len(self.seconds) > 20:
            p99 = statistics.quantiles(self.seconds, n=100)[98]
            print(f"healthy client: {len(self.seconds)} rounds, p99 {p99 * 1000:.1f} ms, max {max(self.seconds):.3f} s")


def closed(port: int, reason: str) -> int:
    return counted(port, f'mqcore_bad_requests_total{{reason="{reason}"}}')


def counted(port: int, family: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith(family))
