"""Shell: one design under the crowd: a stack with that design in front, a fault in the middle, what came out wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from redis import Redis

from loadtest.designs import purchase_rows
from loadtest.designs.answers import ClientView, read_client_view, wrong_answers
from loadtest.designs.variants import Design
from seckill.lab.crowd_log import CrowdLog
from seckill.lab.lab_stack import ExperimentFailed, LabStack
from seckill.lab.sale_database import SaleDatabase
from seckill.stack import health_checks
from seckill.stack.child_processes import granian_command

OPENS_IN_S = 8.0
PAYMENT_TTL_S = 10
PATIENCE_S = 60.0
SETTLE_SECONDS_MAX = 150.0
START_SECONDS_MAX = 60.0
POLL_S = 0.2
_NEXT_DECISION = "SELECT min(decided_at_ms) FROM inventory_decided WHERE decided_at_ms > %s"
NEEDS_A_LOG = frozenset(
    {"I4", "I7", "I8", "I9", "I10", "I11", "I16", "I17", "I18", "I19", "I22", "I24", "I26", "I29", "I31"}
)
"""Invariants about a log of requests or about the gate, which other designs do not have. I10 compares answers with the
log; `wrong_answers` compares them with the tables, in all designs."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of one design. The first three counts are failures, and 0 means that none was seen."""

    design: str
    oversold: int  # most units that buyers held at once, beyond those of the sale
    lost: int  # requests accepted with 202 and never decided
    wrong_answers: int  # requests whose buyers saw something that the books contradict
    orders_per_s: float  # from the first attempt until as many orders were placed as there are units
    accepted: int
    accepted_per_s: float
    p50_ms: int
    p99_ms: int
    decided_s: float  # from the first attempt to the last decision
    sold: int
    cut: int  # purchase calls that the kill -9 left without a response
    standstill_s: float  # from the kill -9 to the next decision; 0 without a kill
    broken: dict[str, int]  # invariants and their violations

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(design: Design, folder: Path, units: int, buyers: int, over_s: float, *, fault: bool) -> Measurement:
    """Run the design on a new stack."""
    stack = LabStack(folder, {} if design.decide is None else {"inventory": 0, "gateway": 0}, PAYMENT_TTL_S)
    try:
        stack.start()
        servers = DesignServers(stack, design)
        servers.start()
        sale = stack.create_sale(units, price=9900, opens_in=OPENS_IN_S)
        log = stack.evidence / "rush.jsonl"
        crowd = stack.spawn(
            "crowd", "loadtest.rush", "--url", stack.gateway, "--sale", str(sale), "--buyers", str(buyers),
            "--log", str(log), "--over", str(over_s), "--patience", str(OPENS_IN_S + over_s + PATIENCE_S),
            "--greedy", "0.3", "--connections", "128",
        )  # fmt: skip
        course = _run_sale(stack, servers, sale, crowd, CrowdLog(log), buyers // 3 if fault else None)
        return _evaluate(stack, design, sale, units, course, read_client_view(log))
    finally:
        stack.stop()


class Course(NamedTuple):
    """What was seen of a sale while it ran."""

    active_units_max: int
    killed_at_ms: int | None


class DesignServers:
    """The processes of a design: an HTTP server and, for one design, a Celery worker. The product needs neither."""

    def __init__(self, stack: LabStack, design: Design) -> None:
        self._stack, self._design = stack, design
        self._http: subprocess.Popen[bytes] | None = None
        self._worker: subprocess.Popen[bytes] | None = None
        self._environment = {
            **stack.addresses(), "DJANGO_SETTINGS_MODULE": "loadtest.designs.settings",
            "COMPARED_DESIGN": design.name, "SECKILL_TRUSTED_PROXIES": "127.0.0.1",
        }  # fmt: skip

    def start(self) -> None:
        if self._design.decide is None:
            return
        if not self._design.keeps_constraints:
            purchase_rows.drop_constraints(self._stack.addresses()["SECKILL_DATABASE_URL"])
        self._start_http()
        if self._design.in_task:
            self._start_worker()
        check = health_checks.http(f"{self._stack.gateway}/readyz")
        self._stack.wait_until(lambda: check() is None, f"the server of {self._design.name}", START_SECONDS_MAX)

    def kill(self) -> None:
        """kill -9 of the process that decides, and start it again."""
        if self._design.decide is None:
            self._stack.kill_service("inventory")
        elif self._worker is not None:
            _kill_group(self._worker)
            self._start_worker()
        elif self._http is not None:
            _kill_group(self._http)
            self._start_http()

    def _start_http(self) -> None:
        port = self._stack.layout.ports.gateway
        command = granian_command("wsgi", port, "loadtest.designs.wsgi:application", "--blocking-threads", "128")
        self._http = self._stack.spawn_command("design", command, self._environment)

    def _start_worker(self) -> None:
        command = [
            sys.executable, "-m", "celery", "-A", "loadtest.designs.tasks", "worker", "-Q", "designs",
            "--pool", "threads", "--concurrency", "16", "--loglevel", "WARNING",
        ]  # fmt: skip
        self._worker = self._stack.spawn_command("worker", command, self._environment)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _run_sale(
    stack: LabStack, servers: DesignServers, sale: int, crowd: subprocess.Popen[bytes], log: CrowdLog,
    fault_at: int | None,
) -> Course:  # fmt: skip
    """Until the crowd has finished and the sale has settled, or no longer changes."""
    redis: Redis = Redis.from_url(stack.addresses()["SECKILL_GATE_REDIS_URL"], socket_timeout=5)
    database = stack.database
    units_max, killed_at_ms = 0, None
    while crowd.poll() is None:
        log.read_new_lines()
        units_max = max(units_max, database.active_units(sale))
        if fault_at is not None and log.accepted >= fault_at:
            fault_at, killed_at_ms = None, time.time_ns() // 1_000_000
            servers.kill()
            redis.flushall()
        time.sleep(POLL_S)
    if crowd.returncode:
        raise ExperimentFailed(f"the crowd failed:\n{stack.log_text('crowd')[-2000:]}")
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while database.unsettled() and time.monotonic() < deadline:
        units_max = max(units_max, database.active_units(sale))
        time.sleep(POLL_S)
    return Course(max(units_max, database.active_units(sale)), killed_at_ms)


def _evaluate(stack: LabStack, design: Design, sale: int, units: int, course: Course, view: ClientView) -> Measurement:
    if not view.accepted_at_ms:
        raise ExperimentFailed(f"{design.name}: no request was accepted; see {stack.folder}")
    database = stack.database
    decisions = database.decided_requests()
    placed_ms = database.orders_placed_ms(sale)[:units]
    accepted = len(view.accepted_at_ms)
    seconds = max(0.001, (max(view.accepted_at_ms.values()) - view.first_ms) / 1000)
    latencies = sorted(view.latencies_ms)
    last_decision_ms = database.last_decision_ms() or view.first_ms
    return Measurement(
        design=design.name,
        oversold=max(0, course.active_units_max - units),
        lost=len(view.accepted_at_ms.keys() - decisions.keys()),
        wrong_answers=len(wrong_answers(view, decisions, database.hold_states(sale))),
        orders_per_s=round(len(placed_ms) / max(0.001, (placed_ms[-1] - view.first_ms) / 1000), 1) if placed_ms else 0,
        accepted=accepted,
        accepted_per_s=round(accepted / seconds, 1),
        p50_ms=latencies[len(latencies) // 2],
        p99_ms=latencies[len(latencies) * 99 // 100],
        decided_s=round((last_decision_ms - view.first_ms) / 1000, 1),
        sold=database.sold_holds(),
        cut=view.cut,
        standstill_s=_standstill_s(database, course.killed_at_ms),
        broken=_broken_invariants(stack, design),
    )


def _standstill_s(database: SaleDatabase, killed_at_ms: int | None) -> float:
    """Until the next decision. A design that never decides again stands still until its last request was looked for."""
    if killed_at_ms is None:
        return 0.0
    next_ms = database.number(_NEXT_DECISION, killed_at_ms) or time.time_ns() // 1_000_000
    return round((next_ms - killed_at_ms) / 1000, 1)


def _broken_invariants(stack: LabStack, design: Design) -> dict[str, int]:
    path = stack.folder / "report.json"
    stack.run(
        "seckill.cli", "report", "--data", str(stack.folder), "--json", str(path), "--patience", "15",
        exit_codes=(0, 1, 2),
    )  # fmt: skip
    report: dict[str, Any] = json.loads(path.read_text())
    not_applicable = frozenset() if design.decide is None else NEEDS_A_LOG
    return {
        each["name"]: each["violations"]
        for each in report["invariants"]
        if each["verdict"] == "FAIL" and each["name"] not in not_applicable
    }
