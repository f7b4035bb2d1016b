"""Locust as users start it: headless, alone and over several processes; and the evidence that it writes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from seckill.report import manifest
from seckill.report.sources import files
from seckill.stack.child_processes import free_ports
from seckill.stack.services import ROOT
from seckill.stack.stack_process import clean_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PATIENCE_S = 120.0


def sale(number: int, closes_at_ms: int) -> dict[str, object]:
    names = {"name": "Gong", "sku": "phone", "state": "open"}
    return names | {"id": number, "opens_at_ms": 0, "closes_at_ms": closes_at_ms}


class Shop(BaseHTTPRequestHandler):
    """A small gateway that accepts every request, and then answers that the sale is sold out."""

    protocol_version = "HTTP/1.1"
    state = "SOLD_OUT"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.endswith("/sessions"):
            self._answer(201, {"token": "t"})
        elif self.path.endswith("/ticket"):
            self._answer(201, {"ticket": "T"})
        else:
            self._answer(202, {"request_id": str(uuid4()), "partition": 0, "offset": 0})

    def do_GET(self) -> None:
        if self.path.endswith("/sales"):
            self._answer(200, {"sales": [sale(3, 2**50), sale(7, 2**50), sale(9, 1)]})
        else:
            self._answer(200, {"state": self.state, "opens_at_ms": 0, "now_ms": 0})

    def _answer(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def shop() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def locust(shop: str, evidence: Path, *words: str, page: bool = False) -> list[str]:
    command = [sys.executable, "-m", "locust", "-f", str(ROOT / "loadtest" / "locustfile.py")]
    command += [] if page else ["--headless"]
    return [*command, "--host", shop, "--evidence", str(evidence), "--stop-timeout", "20", *words]


def crowd_of(evidence: Path) -> files.CrowdLog:
    declared = manifest.read_manifest(evidence)
    return files.read_crowd_logs([evidence / name for name in declared.logs])


@contextmanager
def running(command: Sequence[str], output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command during the block, then kill its whole process group."""
    with output.open("wb") as told:
        process = subprocess.Popen(
            command, stdout=told, stderr=told, stdin=subprocess.DEVNULL, env=clean_environment(), start_new_session=True
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run_until(command: Sequence[str], evidence: Path, purchases: int) -> files.CrowdLog:
    """Stop it once its log has this many purchases. A fixed time would be too short on a busy machine."""
    output = evidence / "locust.out"
    with running(command, output) as process:
        wait(lambda: sum(map(attempts, evidence.glob("*.jsonl"))) >= purchases, process, output)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    return crowd_of(evidence)


def wait(holds: Callable[[], bool], process: subprocess.Popen[bytes], output: Path) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not holds():
        assert process.poll() is None and time.monotonic() < give_up, output.read_text()
        time.sleep(0.05)


class Page:
    """The API of Locust's page, as its scripts use it."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, **form: object) -> dict[str, Any]:
        """Empty while it is not there."""
        content = urlencode(form).encode() if form else None
        try:
            with urllib.request.urlopen(self._url + path, content, timeout=10) as answer:
                said: dict[str, Any] = json.load(answer)
        except OSError:
            return {}
        return said

    def status(self, path: str, form: Mapping[str, object], headers: Mapping[str, str] | None = None) -> int:
        asked = urllib.request.Request(self._url + path, urlencode(form).encode() or None, dict(headers or {}))
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code

    def ready_workers(self) -> int:
        workers = self.ask("/stats/requests").get("workers", [])
        return sum(worker["state"] == "ready" for worker in workers)

    def requests(self, name: str) -> int:
        """The number of requests of this kind on the page."""
        shown = self.ask("/stats/requests").get("stats", [])
        return sum(each["num_requests"] for each in shown if each["name"] == name)


def attempts(log: Path) -> int:
    return log.read_bytes().count(b'"purchase"')


def test_every_attempt_is_in_the_log_and_the_newest_sale_is_the_default(shop: str, tmp_path: Path) -> None:
    crowd = run_until(locust(shop, tmp_path, "-u", "5", "-r", "5"), tmp_path, 5)
    assert crowd.faults == []
    assert crowd.sales == {7}
    assert {attempt.status for attempt in crowd.attempts} == {202}
    assert {sight.request_id for sight in crowd.polls} <= {attempt.request_id for attempt in crowd.attempts}


def test_an_open_loop_starts_buyers_at_a_fixed_rate(shop: str, tmp_path: Path) -> None:
    """No request is ever decided, so two ordinary Locust users would never finish their first purchases."""
    Shop.state = "QUEUED"
    try:
        command = locust(shop, tmp_path, "-u", "2", "-r", "2", "--arrival-rate", "50", "--patience", "60")
        crowd = run_until([*command, "--stop-timeout", "1"], tmp_path, 30)
    finally:
        Shop.state = "SOLD_OUT"
    assert crowd.faults == []
    assert len({attempt.user_id for attempt in crowd.attempts}) > 10


def test_locusts_page_starts_shows_stops_and_restarts_a_test(shop: str, tmp_path: Path) -> None:
    """With two workers. Each worker writes a complete log for each run, and the page counts their requests."""
    bus, web = free_ports(2)
    words = ["--processes", "2", "--master-bind-port", str(bus), "--master-port", str(bus)]
    words += ["--web-host", "127.0.0.1", "--web-port", str(web)]
    words += ["--stop-timeout", "2"]  # how long a worker pauses after a run
    output, page = tmp_path / "locust.out", Page(web)
    with running(locust(shop, tmp_path, *words, page=True), output) as process:
        for run in (1, 2):
            wait(lambda: page.ready_workers() == 2, process, output)
            assert len(list(tmp_path.glob("*.jsonl"))) == 2 * (run - 1), "no worker buys before the start"
            assert page.ask("/swarm", user_count=6, spawn_rate=6, host=shop)["success"]
            wait(lambda: page.requests("POST /sales/[id]/purchases") >= 6, process, output)
            assert page.ask("/stop", really=True)["success"]
            wait(lambda: page.ask("/stats/requests")["state"] == "stopped", process, output)
            wait(lambda: len(whole_logs(tmp_path)) == 2 * run, process, output)  # noqa: B023
        last = sum(map(attempts, sorted(whole_logs(tmp_path), key=lambda log: log.stat().st_mtime)[-2:]))
        # The page shows a run from its start; its workers report every few seconds.
        wait(lambda: page.requests("POST /sales/[id]/purchases") == last, process, output)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    assert crowd_of(tmp_path).faults == []
    assert len(manifest.read_manifest(tmp_path).logs) == 4
    assert all(map(attempts, whole_logs(tmp_path))), "both workers bought, in both runs"


def test_locusts_page_serves_only_this_machine_and_cannot_change_target_or_folder(shop: str, tmp_path: Path) -> None:
    [web] = free_ports(1)
    swarm = {"user_count": 1, "spawn_rate": 1}
    output, page = tmp_path / "locust.out", Page(web)
    with running(locust(shop, tmp_path, "--web-port", str(web), page=True), output) as process:
        wait(lambda: bool(page.ask("/stats/requests")), process, output)
        with pytest.raises(ConnectionRefusedError):  # another address of this machine
            socket.create_connection(("127.0.0.2", web), timeout=10)
        assert page.status("/swarm", swarm | {"host": "http://192.0.2.1"}) == 400
        assert page.status("/swarm", swarm | {"evidence": str(tmp_path / "elsewhere")}) == 400
        assert page.status("/swarm", swarm, {"Origin": "http://shop.example"}) == 403
        assert page.status("/swarm", swarm, {"Host": "rebound.example"}) == 403
        assert page.status("/", {}, {"Host": "rebound.example"}) == 403
        assert page.ask("/stats/requests")["state"] == "ready"
        assert page.status("/swarm", swarm | {"host": shop}, {"Origin": f"http://127.0.0.1:{web}"}) == 200
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    assert not (tmp_path / "elsewhere").exists()


def whole_logs(evidence: Path) -> list[Path]:
    return [log for log in evidence.glob("*.jsonl") if b'"what":"end"' in log.read_bytes()[-300:]]


def test_a_killed_worker_leaves_an_incomplete_log_and_the_others_complete_ones(shop: str, tmp_path: Path) -> None:
    [port] = free_ports(1)
    words = ("--processes", "2", "--master-bind-port", str(port), "--master-port", str(port))
    command = locust(shop, tmp_path, "-u", "6", "-r", "6", *words)
    output = tmp_path / "locust.out"
    with running(command, output) as process:
        wait(lambda: sum(attempts(log) > 0 for log in tmp_path.glob("*.jsonl")) == 2, process, output)
        killed, _ = sorted(tmp_path.glob("*.jsonl"))
        os.kill(int(killed.stem.rpartition("-")[2]), signal.SIGKILL)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    assert len(manifest.read_manifest(tmp_path).logs) == 2
    assert crowd_of(tmp_path).faults == [f"{killed.name}: cut off, it has no closing line"]
