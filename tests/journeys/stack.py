"""A whole stack for a journey: `seckill up` in its own folder, on free ports, as a user would run it.

With `TEST_BROKER=kafka` it uses an Apache Kafka that the test starts beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from email.message import Message
from pathlib import Path
from typing import Any

import psycopg

from seckill.stack.child_processes import WaitTimeout, free_ports
from seckill.stack.control import StackFault
from seckill.stack.services import Ports
from seckill.stack.stack_process import StackProcess, clean_environment
from tests.conformance.peer import IS_KAFKA, ApacheKafka

PATIENCE_S = 90.0


class Stack(StackProcess):
    """It starts without a first sale unless `empty` is False. `more` are further words for `seckill up`; `prefix` is a
    command to run it under; `faults` are fault points; `settings` are environment variables."""

    def __init__(
        self,
        folder: Path,
        *more: str,
        prefix: Sequence[str] = (),
        cwd: Path | None = None,
        faults: str = "",
        on_kafka: bool = IS_KAFKA,
        empty: bool = True,
        ports: dict[str, int] | None = None,
        **settings: str,
    ) -> None:
        names = list(Ports().all())
        self.ports = ports or dict(zip(names, free_ports(len(names)), strict=True))
        self._kafka = ApacheKafka(folder / "kafka", {"auto.create.topics.enable": "false"}) if on_kafka else None
        if self._kafka is not None:
            self.ports["broker"] = self._kafka.port
            more += ("--kafka", self._kafka.address)
        if empty:
            more += ("--empty",)
        settings |= {"SECKILL_FAULT": faults} if faults else {}
        super().__init__(folder, Ports(**self.ports), settings, more=more, prefix=prefix, cwd=cwd)

    @property
    def database(self) -> str:
        return self.addresses()["SECKILL_DATABASE_URL"]

    # ── start and stop ───────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        if self._kafka is not None:
            self._kafka.start()
        super().start()

    def run_to_end(self) -> subprocess.CompletedProcess[str]:
        """The same `seckill up`, where it is expected to fail."""
        return subprocess.run(self.command(), capture_output=True, text=True, timeout=PATIENCE_S, env=self.started_with)

    def stop(self) -> int:
        try:
            return super().stop()
        finally:
            if self._kafka is not None:
                self._kafka.kill()

    def pid_of(self, name: str) -> int:
        """The pid of a process; "mqcore" is the broker in use."""
        if name == "mqcore" and self._kafka is not None:
            return self._kafka.pid
        return int(self.processes()[name]["pid"])

    def run_command(self, *words: str) -> str:
        """The output of `seckill WORDS` on this stack; an exit code other than 0 is an error."""
        command = [sys.executable, "-m", "seckill.cli", "--data", str(self.folder), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    # ── the sale ─────────────────────────────────────────────────────────────────────────────────

    def create_sale(self, units: int, **options: object) -> int:
        sale = super().create_sale(units, **options)
        self.wait_until(lambda: self.call("GET", f"/sales/{sale}")[0] == 200, "the gateway to know the sale")
        return sale

    def call(
        self, method: str, path: str, body: object = None, *, token: str = "", key: str = "", ticket: str = ""
    ) -> tuple[int, dict[str, Any]]:
        """One request to the API: status and body."""
        status, _, content = self.call_with_headers(method, path, body, token=token, key=key, ticket=ticket)
        return status, content

    def call_with_headers(
        self, method: str, path: str, body: object = None, *, token: str = "", key: str = "", ticket: str = ""
    ) -> tuple[int, Message, dict[str, Any]]:
        """One request to the API: status, headers and body."""
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if key:
            headers["Idempotency-Key"] = key
        if ticket:
            headers["Purchase-Ticket"] = ticket
        request = urllib.request.Request(
            f"{self.gateway}/api/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers=headers,
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=15) as response:
                return response.status, response.headers, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, error.headers, json.loads(error.read() or b"{}")

    def query(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database) as connection:
            return connection.execute(statement.encode(), parameters).fetchall()

    def wait_until(
        self, holds: Callable[[], object], what: str, seconds_max: float = PATIENCE_S, poll_s: float = 0.1
    ) -> None:
        try:
            super().wait_until(holds, what, seconds_max, poll_s)
        except WaitTimeout as fault:
            raise WaitTimeout(f"{fault}\n{self.output_text[-4000:]}") from fault


class Buyer:
    def __init__(self, stack: Stack, name: str) -> None:
        self._stack = stack
        status, session = stack.call("POST", "/sessions", {"user": name})
        assert status == 201
        self.name, self.token = name, session["token"]

    def buy(self, sale: int, key: str = "first", quantity: int = 1, sku: str = "") -> tuple[int, dict[str, Any]]:
        ticket = self.ticket(sale)
        body = {"quantity": quantity} | ({"sku": sku} if sku else {})
        return self._stack.call("POST", f"/sales/{sale}/purchases", body, token=self.token, key=key, ticket=ticket)

    def ticket(self, sale: int) -> str:
        """Empty before the opening and after the end."""
        ticket: str = self._stack.call("POST", f"/sales/{sale}/ticket", token=self.token)[1].get("ticket", "")
        return ticket

    def poll(self, request_id: str) -> dict[str, Any]:
        return self._stack.call("GET", f"/purchases/{request_id}", token=self.token)[1]

    def wait_for(self, request_id: str, *states: str) -> dict[str, Any]:
        self._stack.wait_until(lambda: self.poll(request_id).get("state") in states, f"{self.name}: {states}")
        return self.poll(request_id)

    def act(self, order_id: str, verb: str) -> tuple[int, dict[str, Any]]:
        """Pay or cancel an order."""
        return self._stack.call("POST", f"/orders/{order_id}/{verb}", token=self.token)


__all__ = ["Buyer", "Stack", "StackFault", "clean_environment"]
