"""Shell: the stack that is broken: started in a folder of its own, and everything a case may do to it or ask it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from redis import Redis

from seckill.consistency.manifest import VERSION
from seckill.faults.case import PAYMENT_TTL_S
from seckill.faults.crowd import Book, Crowd, Stragglers
from seckill.faults.ports import free_ports
from seckill.stack.control import StackFault
from seckill.stack.process import StackProcess, bare
from seckill.stack.services import Ports
from seckill.streams.partitioners import SlotTable
from seckill.topics import PURCHASE_REQUESTS

PATIENCE_S = 240.0
WITNESSES = ("sandbox",)
LOOK_S = 0.1


class Stuck(Exception):
    """What should have come has not; the text says what was waited for."""


class World(StackProcess):
    """One stack, over all cases that share it."""

    def __init__(
        self,
        folder: Path,
        first_port: int,
        seed: int = 1,
        scale: float = 1.0,
        time_to_pay_s: int = PAYMENT_TTL_S,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        names = [*Ports().all(), "second gateway"]
        self.ports = dict(zip(names, free_ports(first_port), strict=False))
        self.second_port = self.ports.pop("second gateway")
        settings = {"SECKILL_PAYMENT_TTL_S": str(time_to_pay_s), "SECKILL_TRUSTED_PROXIES": "127.0.0.1"}
        super().__init__(folder, Ports(**self.ports), settings)
        self.seed, self.scale, self.time_to_pay_s = seed, scale, time_to_pay_s
        self.say = say  # how far it is, to whoever waits
        self.environment: dict[str, str] = {}
        self.sale = 0  # the one the crowd is at
        self.side_sale = 0  # one that never sells out
        self.crowd: Crowd | None = None
        self.numbers: dict[str, int | str] = {}
        self.missing: list[str] = []

    # ── life ─────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        super().start()
        self.environment = self.addresses()

    def stop(self) -> None:
        """Whatever is frozen goes on first, or it could not hear."""
        try:
            for row in self.rows().values() if self.is_running else ():
                if row["pid"]:
                    _signal(row["pid"], signal.SIGCONT)
        except StackFault:
            pass  # it has not come so far that it could tell
        super().stop()

    def wait_until(self, holds: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
        give_up = time.monotonic() + patience_s
        while not holds():
            if self.has_ended:
                raise Stuck(f"the stack has ended; see {self.output}")
            if time.monotonic() > give_up:
                raise Stuck(f"waited {patience_s:.0f} s in vain for {what}")
            time.sleep(LOOK_S)

    # ── processes ────────────────────────────────────────────────────────────────────────────────

    def instances(self, service: str) -> list[str]:
        """Names of a service's processes: inventory is inventory.1, inventory.2."""
        return [name for name in self.rows() if name == service or service_of(name) == service]

    def restarts(self, *services: str) -> int:
        rows = self.rows()
        return sum(rows[name]["restarts"] for service in services for name in self.instances(service))

    def restart_with(self, service: str, **variables: str) -> None:
        """Stop it in order and start it with more variables, which it keeps until it is started again."""
        self.word("stop", name=service)
        self.word("start", name=service, **({"with": variables} if variables else {}))

    def is_up(self, *services: str) -> bool:
        chosen = {name for service in services for name in self.instances(service)} if services else None
        return all(row["state"] == "up" for name, row in self.rows().items() if chosen is None or name in chosen)

    def pid(self, name: str) -> int:
        pid = self.rows()[name]["pid"]
        if pid is None:
            raise Stuck(f"{name} does not run")
        return int(pid)

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """SIGSTOP: it is there, it holds its connections, and it does nothing."""
        pid = self.pid(name)
        _signal(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(pid, signal.SIGCONT)

    def wake(self, name: str) -> None:
        _signal(self.pid(name), signal.SIGCONT)

    def log_of(self, name: str) -> str:
        path = self.folder / "logs" / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    # ── servers ──────────────────────────────────────────────────────────────────────────────────

    @property
    def broker(self) -> str:
        return self.environment["KAFKA_BOOTSTRAP_SERVERS"]

    def query(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """What a SELECT finds; nothing of anything else."""
        with psycopg.connect(self.environment["SECKILL_DATABASE_URL"], connect_timeout=5) as connection:
            done = connection.execute(statement.encode(), parameters)
            return done.fetchall() if done.description else []

    def change(self, statement: str, *parameters: object) -> int:
        """Something nobody should ever do; how many rows it was done to."""
        with psycopg.connect(self.environment["SECKILL_DATABASE_URL"], connect_timeout=5) as connection:
            return connection.execute(statement.encode(), parameters).rowcount

    def count(self, what: str, *parameters: object) -> int:
        """`SELECT count(*) FROM` this."""
        return int(self.query(f"SELECT count(*) FROM {what}", *parameters)[0][0])

    def slots(self) -> SlotTable:
        """Where requests of whom go."""
        [[version, partition_of]] = self.query(
            "SELECT version, partition_of FROM streams_slot_map WHERE topic = %s", PURCHASE_REQUESTS.name
        )
        return SlotTable(version, tuple(partition_of))

    def redis(self) -> Redis:
        """The gate's and the admission's."""
        client: Redis = Redis.from_url(
            self.environment["SECKILL_GATE_REDIS_URL"], socket_timeout=5, decode_responses=True
        )
        return client

    def manage(self, *words: str) -> str:
        command = [sys.executable, "-m", "seckill.cli", "manage", "--data", str(self.folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, env=bare(), timeout=PATIENCE_S)
        if done.returncode:
            raise Stuck(f"{' '.join(words)}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def seckill(self, *words: str) -> str:
        """An operator's word to this stack."""
        command = [sys.executable, "-m", "seckill.cli", *words, "--data", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, env=bare(), timeout=PATIENCE_S)
        return done.stdout + done.stderr

    def scaled(self, count: float) -> int:
        """So many in a run of this scale."""
        return max(1, round(count * self.scale))

    def create_sale(self, units: int, **options: object) -> int:
        words = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
        told = self.manage("sale", "create", "--name", "Gong", "--sku", "phone", "--units", str(units), *words)
        return int(json.loads(told)["sale"])

    # ── how far it is ────────────────────────────────────────────────────────────────────────────

    def decided(self, sale: int | None = None) -> int:
        return self.count("inventory_decided WHERE sale_id = %s", sale or self.sale)

    # ── evidence ─────────────────────────────────────────────────────────────────────────────────

    def declare(self, fault: str) -> None:
        """Enter a planned fault in the manifest, before it happens."""
        self.evidence.mkdir(exist_ok=True)
        path = self.evidence / "manifest.json"
        manifest: dict[str, Any] = {"version": VERSION, "runs": [], "off": ["analytics"], "faults": []}
        if path.exists():
            manifest = json.loads(path.read_text())
        manifest["faults"].append(fault)
        path.write_text(json.dumps(manifest, indent=1) + "\n")

    def outside(self, name: str) -> list[dict[str, Any]]:
        """What the outside world has written down: provider or sinks."""
        lines = (self.folder / "sandbox" / f"{name}.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    @contextmanager
    def book(self, name: str, sale: int | None = None) -> Iterator[Book]:
        """A log for buyers who act by the script."""
        book = Book(self.evidence / f"{name}.scripted.jsonl", sale or self.sale)
        try:
            yield book
        finally:
            book.close()

    @contextmanager
    def stragglers(self, name: str) -> Iterator[None]:
        """Buyers who keep coming meanwhile, however long it takes, to a sale that does not sell out."""
        with self.book(name, self.side_sale) as book:
            stragglers = Stragglers(self.gateway, book.sale, book, name)
            try:
                yield
            finally:
                stragglers.stop()

    def note(self, fault: str, what: str) -> None:
        """It happens now; what it was is shown where it happened."""
        now_ms = time.time_ns() // 1_000_000
        self.note_fault(fault, now_ms, now_ms, what=what)

    def note_fault(self, fault: str, at_ms: int, until_ms: int, **more: Any) -> None:
        """Into the log of what was really injected."""
        line = {"at_ms": at_ms, "until_ms": until_ms, "fault": fault, **more}
        with (self.evidence / "faults.jsonl").open("a") as log:
            log.write(json.dumps(line) + "\n")

    def proves(self, what: str, count: int) -> None:
        """Without this the fault did not happen, or did nothing."""
        self.numbers[what] = int(count)
        if count <= 0:
            self.missing.append(what)

    def tells(self, what: str, value: int | str) -> None:
        """Worth knowing, and proves nothing."""
        self.numbers[what] = value


def service_of(name: str) -> str:
    """Of inventory.1 it is inventory; of inventory.settlement.1, inventory.settlement."""
    service, _, number = name.rpartition(".")
    return service if number.isdigit() else name


def _signal(pid: int, number: signal.Signals) -> None:
    """To a process and all it has started."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass  # gone already
