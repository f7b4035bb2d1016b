"""Shell: `seckill faults soak`: sale after sale under random kills and freezes, then the report.

It succeeds if the report says PASS and no resource grows (seckill/lab/faults/growth.py).
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import psycopg
from redis.exceptions import RedisError

from seckill.lab.faults import growth, settling
from seckill.lab.faults.case import CrowdPlan
from seckill.lab.faults.crowd import CrowdProcess
from seckill.lab.faults.fault_stack import WITNESSES, FaultStack
from seckill.lab.faults.runner import run_report
from seckill.lab.lab_stack import ExperimentFailed
from seckill.report.verdicts import Judgement
from seckill.stack.control import StackFault

NAME = "soak"
CROWD = CrowdPlan(units=60, buyers=400, over_s=15, options=("--pay", "0.7"))
KILL_EVERY_S = 15.0
FREEZE_EVERY_S, FROZEN_S = 60.0, 20.0
SAMPLE_EVERY_S = 10.0
TICK_S = 0.25
OUTAGES = (StackFault, ExperimentFailed, psycopg.Error, RedisError, OSError)
"""What a query may raise while a server is down."""

Announce = Callable[[str], None]


class Frozen(NamedTuple):
    """A process group that SIGSTOP has stopped."""

    name: str
    group: int
    until: float
    since_ms: int


class Soak:
    def __init__(self, folder: Path, first_port: int, seed: int, announce: Announce) -> None:
        self._announce, self._random = announce, random.Random(seed)
        self.folder = folder.absolute()
        self.stack = FaultStack(self.folder / "stack", first_port)
        self.samples: list[growth.Sample] = []
        self.sales = 0
        self.killed: Counter[str] = Counter()
        self.frozen: Counter[str] = Counter()
        self._sale = 0
        self._crowd: CrowdProcess | None = None
        self._frozen: Frozen | None = None

    def run(self, minutes: float) -> list[Judgement]:
        """The verdicts of the report at the end."""
        self.stack.start()
        self.stack.evidence_folder.declare(NAME)
        began_ms = time.time_ns() // 1_000_000
        self._disturb_until(time.monotonic() + 60 * minutes)
        self.stack.evidence_folder.note_fault(NAME, began_ms, killed=self.killed.total())
        self._announce("the last crowd has finished; waiting until the system has recovered and settled")
        settling.await_recovery(self.stack)
        settling.await_settled(self.stack)
        _, judged = run_report(self.stack, self.folder, NAME, self._announce)
        return judged

    def stop(self) -> None:
        if self._crowd is not None:
            self._crowd.kill()
        self.stack.stop()

    # ── faults ───────────────────────────────────────────────────────────────────────────────────

    def _disturb_until(self, end: float) -> None:
        began = time.monotonic()
        kill_at, freeze_at, sample_at = began + KILL_EVERY_S, began + FREEZE_EVERY_S / 2, began
        while time.monotonic() < end:
            time.sleep(TICK_S)
            now = time.monotonic()
            self._keep_crowd_running()
            if now >= kill_at:
                self._kill()
                kill_at += KILL_EVERY_S
            if now >= freeze_at:
                self._freeze(now)
                freeze_at += FREEZE_EVERY_S
            if self._frozen is not None and now >= self._frozen.until:
                self._thaw(self._frozen)
            if now >= sample_at:
                self._take_sample(now - began)
                sample_at += SAMPLE_EVERY_S
        if self._frozen is not None:
            self._thaw(self._frozen)
        if self._crowd is not None:
            self._crowd.wait()

    def _keep_crowd_running(self) -> None:
        """When a crowd has finished, close its sale and start the next sale with a new crowd."""
        if self._crowd is not None:
            if self._crowd.is_running:
                return
            self._crowd.wait()
            self._crowd = None
            self._announce(f"sale {self._sale}: the crowd has finished; {self.killed.total()} killed so far")
        try:
            if self.sales:
                self.stack.operate("sale", "close", str(self._sale))
            self._sale = self.stack.create_sale(CROWD.units)
        except OUTAGES:
            return  # Postgres or Redis is down; the next tick tries again
        self.sales += 1
        log = self.stack.evidence / f"{NAME}-{self.sales}.jsonl"
        self._crowd = CrowdProcess(self.stack.gateway, self._sale, CROWD, log)

    def _victims(self) -> dict[str, int]:
        """Running processes with their process groups, without witnesses and the frozen process."""
        frozen = self._frozen.name if self._frozen else ""
        return {
            name: int(each["pid"]) for name, each in sorted(self.stack.processes().items())
            if each["pid"] and name != frozen and not name.startswith(WITNESSES)
        }  # fmt: skip

    def _kill(self) -> None:
        name = self._random.choice(list(self._victims()))
        self.stack.send("kill", name=name)
        self.stack.evidence_folder.note_instant(NAME, f"kill {name}")
        self.killed[name.rstrip(".0123456789")] += 1

    def _freeze(self, now: float) -> None:
        """Like a host that hangs: its processes keep their connections and locks, and do nothing."""
        victims = self._victims()
        name = self._random.choice(list(victims))
        os.killpg(victims[name], signal.SIGSTOP)
        self._frozen = Frozen(name, victims[name], now + FROZEN_S, time.time_ns() // 1_000_000)
        self.frozen[name.rstrip(".0123456789")] += 1

    def _thaw(self, frozen: Frozen) -> None:
        try:
            os.killpg(frozen.group, signal.SIGCONT)
        except ProcessLookupError:
            pass  # the supervisor has replaced the process
        self.stack.evidence_folder.note_fault(NAME, frozen.since_ms, what=f"freeze {frozen.name}")
        self._frozen = None

    # ── resources ────────────────────────────────────────────────────────────────────────────────

    def _take_sample(self, at_s: float) -> None:
        """Skipped while a server that it needs is down."""
        database = self.stack.database
        try:
            groups = {name: int(each["pid"]) for name, each in self.stack.processes().items() if each["pid"]}
            tables = database.table_bytes()
            purchases = database.records_read("inventory")  # unlike rows, offsets survive retention
            with self.stack.redis() as client:
                redis = int(client.info("memory")["used_memory"])
        except OUTAGES:
            return
        topics = growth.folder_bytes(self.stack.folder / "mqcore")
        sample = growth.Sample(at_s, purchases, growth.processes(groups), tables, redis, topics)
        self.samples.append(sample)
        with (self.folder / f"{NAME}.jsonl").open("a") as log:
            log.write(json.dumps(asdict(sample)) + "\n")
