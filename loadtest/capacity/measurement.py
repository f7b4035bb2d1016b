"""Shell: rushes on a whole stack of this machine, and what each of its processes used meanwhile.

The purchases come from the gateway benchmark's generator, which hardly uses the machine itself. Visits and payments
come from the crowd of the demo, whose buyers do everything that a browser does.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
import redis

from loadtest.benchmarks.gateway.open_loop import LEAD_IN_S, OpenLoopSpec
from loadtest.benchmarks.machine import resident_mb
from loadtest.capacity.costs import CPU, LOAD, Actions, Run
from seckill.config.environment import DEVELOPMENT_SECRET
from seckill.lab.sale_database import SaleDatabase
from seckill.stack.child_processes import cpu_seconds, free_port_run, process_family
from seckill.stack.services import Ports
from seckill.stack.stack_process import StackProcess

SETTLE_SECONDS_MAX = 180.0
POLL_S = 0.2
IDLE_S = 6.0
COMMITS = 100
CONNECTIONS = 256
BACKLOG, BACKLOG_S, DRAIN_POLL_S = 16_000, 4.0, 0.01
LOAD_SECONDS_MAX = 300.0
REFUSED_SHARE_MAX = 0.01

Used = dict[str, float]
Announce = Callable[[str], None]


class MeasurementFailed(Exception):
    """A generator failed, or a rush did not settle; the text says which."""


@dataclass(frozen=True, slots=True)
class Rush:
    """`people`: whole visits by the demo's crowd instead of bare purchases; `pay`: the share that pays."""

    name: str
    buyers: int
    over_s: float
    units: int
    polls_per_buyer: float = 0.0
    people: bool = False
    pay: float = 0.0


class MeasuredStack:
    """A stack in this folder, for the length of a `with` block."""

    def __init__(self, folder: Path, announce: Announce) -> None:
        ports = list(Ports().all())
        first = free_port_run(len(ports))
        self._stack = StackProcess(folder, Ports(**{name: first + at for at, name in enumerate(ports)}))
        self._announce = announce

    def __enter__(self) -> MeasuredStack:
        self._announce("start a stack")
        self._stack.start()
        addresses = self._stack.addresses()
        self._database = SaleDatabase(addresses["SECKILL_DATABASE_URL"], keep_connection=True)
        self._redis = redis.Redis.from_url(addresses["SECKILL_ADMISSION_REDIS_URL"])
        return self

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "_database"):
            self._database.close()
            self._redis.close()
        self._announce("stop the stack")
        self._stack.stop()

    # ── what is measured ─────────────────────────────────────────────────────────────────────────

    def idle(self) -> Used:
        """What the stack uses in a second without buyers."""
        self._announce(f"let it idle for {IDLE_S:.0f} s")
        before, began = self._used(), time.perf_counter()
        time.sleep(IDLE_S)
        seconds = time.perf_counter() - began
        return {name: value / seconds for name, value in _difference(before, self._used()).items()}

    def commit_ms(self) -> float:
        """The median time to commit one row."""
        url = self._stack.addresses()["SECKILL_DATABASE_URL"]
        times = []
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS capacity_probe (at timestamptz)")
            for _ in range(COMMITS):
                began = time.perf_counter()
                connection.execute("INSERT INTO capacity_probe VALUES (now())")
                times.append(time.perf_counter() - began)
            connection.execute("DROP TABLE capacity_probe")
        return 1000 * median(times)

    def memory_mb(self) -> dict[str, float]:
        """Of one process of each service, with its children."""
        found: dict[str, float] = {}
        for name, pid in self._pids().items():
            size = sum(map(resident_mb, process_family(pid)))
            found[_service(name)] = max(found.get(_service(name), 0.0), round(size, 1))
        return found

    def run(self, rush: Rush) -> Run:
        """One rush on a sale of its own, until everything that follows from it is done."""
        sale = self._stack.create_sale(rush.units)
        self._wait(lambda: self._knows(sale), "the gateway to know the sale")
        outcomes, orders = self._database.outcomes(), self._database.orders()
        self._announce(f"{rush.name}: {rush.buyers:,} buyers for {rush.units:,} units within {rush.over_s:g} s")
        before = self._used()
        actions, began, load_s = self._people(rush, sale) if rush.people else self._purchases(rush, sale)
        self._wait(lambda: self._database.outcomes() - outcomes >= actions.request, "the last outcome")
        seen = time.perf_counter()
        self._wait(self._is_settled, "the last message")
        ended = time.perf_counter()
        used = _difference(before, self._used()) | {LOAD: load_s}
        placed = self._database.orders() - orders
        done = Actions(actions.request, actions.poll, placed, actions.visit, actions.payment)
        return Run(rush.name, done, rush.over_s, seen - began, ended - began, used)

    def records_per_s(self) -> dict[str, float]:
        """How fast one consumer of each group works off a backlog while nothing else runs."""
        stages = ("gateway.outcomes", "orders")
        for name in stages:
            self._stack.send("stop", name=name)
        before = {name: self._database.records_read(name) for name in stages}
        decided = self._database.decided()
        sale = self._stack.create_sale(1)
        self._wait(lambda: self._knows(sale), "the gateway to know the sale")
        self._announce(f"a backlog of {BACKLOG:,} decisions for each of {', '.join(stages)}")
        backlog = self._purchases(Rush("backlog", BACKLOG, BACKLOG_S, 1), sale)[0].request
        self._wait(
            lambda: self._database.decided() >= decided + backlog and not self._database.unpublished("inventory"),
            "the decisions to be published",
        )
        return {name: self._drain(name, before[name], backlog) for name in stages}

    def _drain(self, group: str, before: int, records: int) -> float:
        first = next(name for name in self._stack.processes() if _service(name) == group)
        self._stack.send("start", name=first)
        self._wait(lambda: self._database.records_read(group) > before, f"{group} to begin", DRAIN_POLL_S)
        done, began = self._database.records_read(group) - before, time.perf_counter()
        self._wait(lambda: self._database.records_read(group) >= before + records, f"{group} to end", DRAIN_POLL_S)
        rate = (records - done) / (time.perf_counter() - began)
        self._stack.send("start", name=group)
        return rate

    # ── load ─────────────────────────────────────────────────────────────────────────────────────

    def _purchases(self, rush: Rush, sale: int) -> tuple[Actions, float, float]:
        """The actions, when the first of them began, and the CPU seconds of the generator."""
        rate = max(1, round(rush.buyers / rush.over_s))
        spec = OpenLoopSpec(
            self._stack.layout.ports.gateway, sale, DEVELOPMENT_SECRET, f"{rush.name}-{sale}-", rush.over_s - LEAD_IN_S,
            rate, round(rate * rush.polls_per_buyer), CONNECTIONS, CONNECTIONS,
        )  # fmt: skip
        text = self._generate("loadtest.benchmarks.gateway.open_loop", json.dumps(asdict(spec)) + "\n")
        began = time.perf_counter()
        facts: dict[str, Any] = json.loads(text)
        statuses = {name: Counter(stream["statuses"]) for name, stream in facts["streams"].items()}
        refused = {status: count for status, count in statuses["purchases"].items() if status != "202"}
        if sum(refused.values()) > REFUSED_SHARE_MAX * rush.buyers:  # a few share an address, which has a limit
            raise MeasurementFailed(f"{rush.name}: the gateway refused purchases: {refused}")
        accepted = statuses["purchases"]["202"] + 1  # and one before the measurement, for the first polls
        actions = Actions(request=accepted, poll=sum(statuses["polls"].values()))
        return actions, began - facts["seconds"], facts["seconds"] * facts["cores"]

    def _people(self, rush: Rush, sale: int) -> tuple[Actions, float, float]:
        log = self._stack.evidence / f"{rush.name}.jsonl"
        words = ["--url", self._stack.gateway, "--sale", str(sale), "--buyers", str(rush.buyers), "--log", str(log)]
        words += ["--over", str(rush.over_s), "--pay", str(rush.pay), "--cancel", "0"]
        words += ["--double-click", "0", "--greedy", "0", "--storm", "0"]
        began, cpu = time.perf_counter(), _children_cpu_s()
        self._generate("loadtest.rush", "", *words)
        load_s = _children_cpu_s() - cpu
        done: Counter[str] = Counter()
        accepted = set()
        for line in log.read_text().splitlines():
            entry = json.loads(line)
            done[entry.get("what", "")] += 1
            if entry.get("what") == "purchase" and entry.get("status") == 202:
                accepted.add(entry["request_id"])
        return Actions(len(accepted), done["poll"], 0, rush.buyers, done["pay"]), began, load_s

    def _generate(self, module: str, spec: str, *words: str) -> str:
        try:
            done = subprocess.run(
                [sys.executable, "-m", module, *words], input=spec, capture_output=True, text=True,
                env=self._stack.started_with | self._stack.addresses(), timeout=LOAD_SECONDS_MAX,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            raise MeasurementFailed(f"{module} ran longer than {LOAD_SECONDS_MAX:.0f} s") from late
        if done.returncode:
            raise MeasurementFailed(f"{module} failed: {done.stderr.strip()[-1500:]}")
        return done.stdout

    # ── what the parts have used ─────────────────────────────────────────────────────────────────

    def _pids(self) -> dict[str, int]:
        return {name: each["pid"] for name, each in self._stack.processes().items() if each["pid"]}

    def _used(self) -> Used:
        used: Used = {}
        for name, pid in self._pids().items():
            key = CPU + _service(name)
            used[key] = used.get(key, 0.0) + sum(map(cpu_seconds, process_family(pid)))
        [[commits, wal]] = self._database.query(
            "SELECT xact_commit, (pg_current_wal_lsn() - '0/0')::bigint FROM pg_stat_database"
            " WHERE datname = current_database()"
        )
        info: Any = self._redis.info()
        log_files = (self._stack.folder / "mqcore").rglob("*.log")
        return used | {
            "postgres.commits": float(commits),
            "postgres.wal_bytes": float(wal),
            "redis.commands": float(info["total_commands_processed"]),
            "redis.bytes": float(info["used_memory"]),
            "broker.bytes": float(sum(path.stat().st_size for path in log_files)),
        }

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    def _knows(self, sale: int) -> bool:
        url = f"{self._stack.gateway}/api/v1/sales/{sale}"
        return subprocess.run(
            [sys.executable, "-IS", str(Path(__file__).parents[2] / "deploy" / "healthy.py"), url], capture_output=True
        ).returncode == 0  # fmt: skip

    def _is_settled(self) -> bool:
        return not (
            self._database.unpublished("inventory")
            or self._database.unpublished("orders")
            or self._database.deliveries_due()
        )

    def _wait(self, holds: Callable[[], object], what: str, poll_s: float = POLL_S) -> None:
        try:
            self._stack.wait_until(holds, what, SETTLE_SECONDS_MAX, poll_s)
        except TimeoutError as late:
            raise MeasurementFailed(str(late)) from late


def _service(name: str) -> str:
    """The service of a process: `inventory` of `inventory.2`."""
    service, _, number = name.rpartition(".")
    return service if number.isdigit() else name


def _difference(before: Mapping[str, float], after: Mapping[str, float]) -> Used:
    return {name: after[name] - before.get(name, 0.0) for name in after}


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cores() -> int:
    return len(os.sched_getaffinity(0))
