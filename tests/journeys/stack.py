"""A whole stack for a journey: `seckill up` in a folder of its own, on free ports, as a user would run it.

With `TEST_BROKER=kafka` it runs on an Apache Kafka that is started beside it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from email.message import Message
from pathlib import Path
from typing import Any

import psycopg

from tests.conformance.peer import IS_KAFKA, ApacheKafka

PORTS = ("postgres", "redis", "broker", "gateway", "provider", "sinks", "live")
PATIENCE_S = 90.0
START_S = 240.0
ROOT = Path(__file__).parents[2]


class Stack:
    def __init__(
        self,
        folder: Path,
        *more: str,
        prefix: Sequence[str] = (),
        cwd: Path | None = None,
        faults: str = "",
        on_kafka: bool = IS_KAFKA,
        **settings: str,
    ) -> None:
        """`more` are words for `seckill up`; `prefix` is a command to run it under; `faults` are fault points;
        `settings` are environment."""
        self.folder = folder
        self._more, self._prefix, self._cwd = more, prefix, cwd
        self._environment = environment() | ({"SECKILL_FAULT": faults} if faults else {}) | settings
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self._output = folder / "up.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._kafka = ApacheKafka(folder / "kafka", {"auto.create.topics.enable": "false"}) if on_kafka else None
        if self._kafka is not None:
            self.ports["broker"] = self._kafka.port
            self._more += ("--kafka", self._kafka.address)

    @property
    def addresses(self) -> dict[str, str]:
        """As the running stack has written them down, with the passwords that it made."""
        written: dict[str, str] = json.loads((self.folder / "run" / "environment.json").read_text())
        return written

    @property
    def database(self) -> str:
        return self.addresses["SECKILL_DATABASE_URL"]

    # ── life ─────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._kafka is not None:
            self._kafka.start()
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                self.command(),
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=self._cwd,
                env=self._environment,
            )
        try:
            self.wait_until(lambda: "up: http" in self.told(), "the stack to be up", START_S)
        except AssertionError:
            if self._process.poll() is None:
                self.stop()  # a test that fails leaves nothing behind
            raise

    def command(self) -> list[str]:
        ports = [part for name, port in self.ports.items() for part in ("--port", f"{name}={port}")]
        command = [sys.executable, "-m", "seckill.cli", "up", "--data", str(self.folder), *ports, *self._more]
        return [*self._prefix, *command]

    def run(self) -> subprocess.CompletedProcess[str]:
        """The same `seckill up`, where it is expected to end by itself."""
        return subprocess.run(self.command(), capture_output=True, text=True, timeout=PATIENCE_S, env=environment())

    def kill(self) -> None:
        """kill -9 of `seckill up` itself: nothing is stopped in order, or at all."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def said(self) -> str:
        return self._output.read_text()

    def stop(self) -> int:
        """As Ctrl-C would; the exit code."""
        assert self._process is not None
        try:
            self._process.send_signal(signal.SIGINT)
            return self._process.wait(PATIENCE_S)
        finally:
            if self._kafka is not None:
                self._kafka.kill()

    def told(self) -> str:
        assert self._process is not None
        text = self._output.read_text()
        assert self._process.poll() is None, f"`seckill up` has ended:\n{text}"
        return text

    def pid_of(self, name: str) -> int:
        """Of one of its processes; "mqcore" is whatever broker it runs on."""
        if name == "mqcore" and self._kafka is not None:
            return self._kafka.pid
        rows = json.loads(self.say("status", "--json"))["instances"]
        return next(int(row["pid"]) for row in rows if row["name"] == name)

    def say(self, *words: str) -> str:
        """`seckill WORDS` to the running stack."""
        command = [sys.executable, "-m", "seckill.cli", *words, "--data", str(self.folder)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def manage(self, *words: str) -> str:
        environment = os.environ | self.addresses
        command = [sys.executable, "manage.py", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

    # ── the world around it ──────────────────────────────────────────────────────────────────────

    def create_sale(self, units: int, cap: int = 1) -> int:
        made = self.manage(
            "sale", "create", "--name", "Gong", "--sku", "phone", "--units", str(units), "--cap", str(cap)
        )
        sale = int(json.loads(made)["sale"])
        self.wait_until(lambda: self.call("GET", f"/sales/{sale}")[0] == 200, "the gateway to know the sale")
        return sale

    def call(
        self, method: str, path: str, body: object = None, *, token: str = "", key: str = "", ticket: str = ""
    ) -> tuple[int, dict[str, Any]]:
        """One request to the API: status and body."""
        status, _, said = self.answer(method, path, body, token=token, key=key, ticket=ticket)
        return status, said

    def answer(
        self, method: str, path: str, body: object = None, *, token: str = "", key: str = "", ticket: str = ""
    ) -> tuple[int, Message, dict[str, Any]]:
        """With its headers."""
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if key:
            headers["Idempotency-Key"] = key
        if ticket:
            headers["Purchase-Ticket"] = ticket
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports['gateway']}/api/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers=headers,
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=15) as answer:
                return answer.status, answer.headers, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, error.headers, json.loads(error.read() or b"{}")

    def query(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database) as connection:
            return connection.execute(statement, parameters).fetchall()

    def evidence(self, name: str) -> list[dict[str, Any]]:
        """What the outside world has written down."""
        path = self.folder / "sandbox" / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def wait_until(self, holds: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + patience_s
        while not holds():
            assert time.monotonic() < deadline, f"waited in vain for {what}\n{self.told()}"
            time.sleep(0.1)


class Buyer:
    def __init__(self, stack: Stack, name: str) -> None:
        self._stack = stack
        status, session = stack.call("POST", "/sessions", {"user": name})
        assert status == 201
        self.name, self.token = name, session["token"]

    def buy(self, sale: int, key: str = "first", quantity: int = 1) -> tuple[int, dict[str, Any]]:
        ticket = self.ticket(sale)
        body = {"quantity": quantity}
        return self._stack.call("POST", f"/sales/{sale}/purchases", body, token=self.token, key=key, ticket=ticket)

    def ticket(self, sale: int) -> str:
        """Empty before the opening and after the end."""
        given: str = self._stack.call("POST", f"/sales/{sale}/ticket", token=self.token)[1].get("ticket", "")
        return given

    def look(self, request_id: str) -> dict[str, Any]:
        return self._stack.call("GET", f"/purchases/{request_id}", token=self.token)[1]

    def wait_for(self, request_id: str, *states: str) -> dict[str, Any]:
        self._stack.wait_until(lambda: self.look(request_id).get("state") in states, f"{self.name}: {states}")
        return self.look(request_id)

    def act(self, order_id: str, verb: str) -> tuple[int, dict[str, Any]]:
        return self._stack.call("POST", f"/orders/{order_id}/{verb}", token=self.token)


def environment() -> dict[str, str]:
    """Without what would point at somebody else's servers; with this project to be found from every folder."""
    names = [name for name in os.environ if not name.startswith(("SECKILL_", "KAFKA_"))]
    return {name: os.environ[name] for name in names} | {"PYTHONPATH": str(ROOT)}


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at this moment."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in held]
    for server in held:
        server.close()
    return ports
