"""Shell: one design under the crowd: a stack with that design in front, a fault in the middle, the books."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis import Redis

from loadtest.peers import books
from loadtest.peers.designs import Design
from seckill.demo.numbers import CrowdLog
from seckill.demo.stage import DemoFault, Stage
from seckill.stack import ready
from seckill.stack.services import HTTP_1_ONLY

OPENS_IN_S = 8.0
PAYMENT_TTL_S = 10
PATIENCE_S = 60.0
REST_S = 150.0
START_S = 60.0
LOOK_S = 0.2
OF_THE_LOG = frozenset({"I4", "I7", "I8", "I9", "I11", "I16", "I17", "I18", "I19", "I22", "I24", "I26", "I29", "I31"})
"""What can only be asked of a design that has a log of requests and a gate: of the others it is not asked."""


@dataclass(frozen=True, slots=True)
class Measured:
    design: str
    accepted: int
    accepted_a_second: float
    p50_ms: int
    p99_ms: int
    decided_s: float  # from the first attempt to the last decision
    sold: int
    lost: int  # accepted, and never decided
    broken: dict[str, int]  # invariants, and how often

    @property
    def breaks(self) -> str:
        return ", ".join(f"{name} ×{count:,}" for name, count in self.broken.items()) or "none"


def measure(design: Design, folder: Path, units: int, buyers: int, over_s: float, *, fault: bool) -> Measured:
    """A stack of its own, used once."""
    stage = Stage(folder, {} if design.decide is None else {"inventory": 0, "gateway": 0}, PAYMENT_TTL_S)
    try:
        stage.start()
        front = Front(stage, design)
        front.start()
        sale = stage.create_sale(units, OPENS_IN_S)
        log = stage.evidence / "rush.jsonl"
        crowd = stage.spawn(
            "crowd", "loadtest.rush", "--url", stage.gateway, "--sale", str(sale), "--buyers", str(buyers),
            "--log", str(log), "--over", str(over_s), "--patience", str(OPENS_IN_S + over_s + PATIENCE_S),
            "--greedy", "0.3", "--connections", "128",
        )  # fmt: skip
        _run(stage, front, crowd, CrowdLog(log), buyers // 3 if fault else None)
        return _judged(stage, design, log)
    finally:
        stage.down()


class Front:
    """The processes of a peer: an HTTP server, for one design a Celery worker. Of the product: inventory."""

    def __init__(self, stage: Stage, design: Design) -> None:
        self._stage, self._design = stage, design
        self._http: subprocess.Popen[bytes] | None = None
        self._worker: subprocess.Popen[bytes] | None = None
        self._environment = {
            **stage.addresses(), "DJANGO_SETTINGS_MODULE": "loadtest.peers.settings", "PEER_DESIGN": design.name,
            "SECKILL_TRUSTED_PROXIES": "127.0.0.1",
        }  # fmt: skip

    def start(self) -> None:
        if self._design.decide is None:
            return
        if not self._design.guards:
            with self._stage.database() as database:
                books.guards_off(database)
        self._start_http()
        if self._design.later:
            self._start_worker()
        is_missing = ready.http(f"{self._stage.gateway}/readyz")
        deadline = time.monotonic() + START_S
        while (missing := is_missing()) is not None:
            if time.monotonic() > deadline:
                raise DemoFault(f"the peer is not ready: {missing}\n{self._stage.said('peer')[-2000:]}")
            time.sleep(LOOK_S)

    def kill(self) -> None:
        """kill -9 of whoever decides, and it is started again."""
        if self._design.decide is None:
            self._stage.kill("inventory")
        elif self._worker is not None:
            _kill(self._worker)
            self._start_worker()
        elif self._http is not None:
            _kill(self._http)
            self._start_http()

    def _start_http(self) -> None:
        self._http = self._stage.spawn(
            "peer", "granian", "--interface", "wsgi", *HTTP_1_ONLY, "--host", "127.0.0.1",
            "--port", str(self._stage.layout.ports.gateway), "--workers", "1", "--blocking-threads", "128",
            "--log-level", "info", "seckill.wsgi:application", environment=self._environment,
        )  # fmt: skip

    def _start_worker(self) -> None:
        self._worker = self._stage.spawn(
            "worker", "celery", "-A", "loadtest.peers.tasks", "worker", "-Q", "peers", "--pool", "threads",
            "--concurrency", "16", "--loglevel", "WARNING", environment=self._environment,
        )  # fmt: skip


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _run(stage: Stage, front: Front, crowd: subprocess.Popen[bytes], log: CrowdLog, fault_at: int | None) -> None:
    """Until the crowd is gone and nothing is held any more, or nothing moves."""
    redis: Redis = Redis.from_url(stage.addresses()["SECKILL_GATE_REDIS_URL"], socket_timeout=5)
    while crowd.poll() is None:
        log.read_on()
        if fault_at is not None and log.acknowledged >= fault_at:
            fault_at = None
            front.kill()
            redis.flushall()
        time.sleep(LOOK_S)
    if crowd.returncode:
        raise DemoFault(f"the crowd failed:\n{stage.said('crowd')[-2000:]}")
    with stage.database() as database:

        def is_at_rest() -> bool:
            row = database.execute(
                "SELECT (SELECT count(*) FROM inventory_hold WHERE state = 'reserved')"
                " + (SELECT count(*) FROM notifications_delivery WHERE state = 'due')"
            ).fetchone()
            return row is not None and row[0] == 0

        _wait(is_at_rest)


def _wait(holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + REST_S
    while not holds() and time.monotonic() < give_up:
        time.sleep(LOOK_S)


def _judged(stage: Stage, design: Design, log: Path) -> Measured:
    attempts, first_ms = [], 0
    accepted: dict[str, int] = {}
    for line in log.read_text().splitlines():
        said = json.loads(line)
        if said["what"] != "purchase":
            continue
        first_ms = first_ms or said["at_ms"]
        if said["status"] == 202:
            attempts.append(said["took_ms"])
            accepted.setdefault(said["request_id"], said["at_ms"] + said["took_ms"])
    if not accepted:
        raise DemoFault(f"{design.name}: nobody was accepted; see {stage.folder}")
    with stage.database() as database:
        decided = {str(row[0]) for row in database.execute("SELECT DISTINCT request_id FROM inventory_decided")}
        numbers = database.execute(
            "SELECT (SELECT max(decided_at_ms) FROM inventory_decided),"
            " (SELECT count(*) FROM inventory_hold WHERE state = 'sold')"
        ).fetchone()
    assert numbers is not None
    attempts.sort()
    seconds = max(0.001, (max(accepted.values()) - first_ms) / 1000)
    return Measured(
        design.name, len(accepted), round(len(accepted) / seconds, 1), attempts[len(attempts) // 2],
        attempts[len(attempts) * 99 // 100], round(((numbers[0] or first_ms) - first_ms) / 1000, 1), numbers[1],
        len(accepted.keys() - decided), _broken(stage, design),
    )  # fmt: skip


def _broken(stage: Stage, design: Design) -> dict[str, int]:
    written = stage.folder / "report.json"
    stage.run(
        "seckill.cli", "report", "--data", str(stage.folder), "--json", str(written), "--patience", "15",
        may_end_with=(0, 1, 2),
    )  # fmt: skip
    report: dict[str, Any] = json.loads(written.read_text())
    asked = frozenset() if design.decide is None else OF_THE_LOG
    return {
        each["name"]: each["violations"]
        for each in report["invariants"]
        if each["verdict"] == "FAIL" and each["name"] not in asked
    }
