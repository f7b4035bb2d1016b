"""All processes: each stopped in turn, each killed around its commits, or random ones killed all the time."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import Any

import psycopg

from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.cases.crash_points import count_responses, crash
from seckill.lab.faults.fault_run import FaultRun
from seckill.lab.faults.fault_stack import WITNESSES, service_of
from seckill.messaging.topics import TOPICS

RELAYS = ("inventory", "orders")
KILL_EVERY_S = 5.0
TICK_S = 0.25
PROGRESS_EVERY_S = 15.0
CHAOS = CrowdPlan(
    units=1000, buyers=46_000, over_s=400, payment_ttl_s=120, outlasts_fault=True,
    options=("--double-click", "1", "--pay", "0.5", "--patience", "1500"),
)  # fmt: skip
"""Half of the buyers with a unit do not pay, so units return and inventory has decisions to make to the end."""


@case(
    "39", "rolling-stop", "every process is stopped with SIGTERM and started again, one after the other, under load",
    crowd=CrowdPlan(buyers=300, over_s=40),
)  # fmt: skip
def rolling_stop(run: FaultRun) -> Steps:
    stopped = 0
    for name in run.stack.processes():
        if name.startswith(WITNESSES):
            continue
        run.stack.send("stop", name=name)
        run.stack.send("start", name=name)
        run.stack.wait_until_up(name)
        stopped += 1
    yield
    run.prove("processes stopped and started", stopped)


@case(
    "10b", "everybody-killed",
    "each consumer crashes before a commit, is restarted and crashes after one; each relay crashes between publishing"
    " and deleting",
)  # fmt: skip
def everybody_killed(run: FaultRun) -> Steps:
    groups = sorted({group for topic in TOPICS.values() for group in topic.readers if group != "analytics"})
    points = {group: (f"{group}.before_commit:once", f"{group}.after_commit:second") for group in groups}
    yield from crash(points | {f"relay.{writer}": (f"relay.{writer}.before_delete:once",) for writer in RELAYS}, run)


@case("chaos", "chaos", f"kill -9 of a random process every {KILL_EVERY_S:.0f} s until the crowd is done", crowd=CHAOS)
def chaos(run: FaultRun) -> Steps:
    chance, kills = random.Random(run.seed), KillRecord()
    began = time.monotonic()
    kill_at, progress_at = began + KILL_EVERY_S, began
    while run.crowd.is_running:
        time.sleep(TICK_S)
        now, processes = time.monotonic(), run.stack.processes()
        kills.update(processes, now)
        if now >= kill_at:
            running = [name for name in processes if processes[name]["pid"] and not name.startswith(WITNESSES)]
            name = chance.choice(sorted(running))
            run.stack.send("kill", name=name)
            run.stack.evidence_folder.note_instant("chaos", f"kill {name}")
            kills.add(name, processes, now)
            kill_at += KILL_EVERY_S
        if now >= progress_at:
            run.announce(f"chaos: {now - began:.0f} s, {kills.killed.total()} killed, {_decided(run)} decided")
            progress_at += PROGRESS_EVERY_S
    yield
    run.prove("processes killed", kills.killed.total())
    run.record("by service", ", ".join(f"{name} {count}" for name, count in sorted(kills.killed.items())))
    run.prove("of them back again", len(kills.down_s))
    run.record("up again after", f"{median(kills.down_s):.1f} s (median), {max(kills.down_s):.1f} s (longest)")
    counts = count_responses(run)
    run.record("attempts", sum(count for response, count in counts.items() if response.isdigit()))
    run.record("responses", ", ".join(f"{response} {count:,}" for response, count in counts.most_common()))
    decisions = run.stack.database.decisions(run.sale)
    run.record("decisions", ", ".join(f"{decision} {count:,}" for decision, count in decisions))
    run.record("seed", run.seed)


class KillRecord:
    """Which services were killed, and how long each process was down."""

    def __init__(self) -> None:
        self.killed: Counter[str] = Counter()
        self.down_s: list[float] = []
        self._down: dict[str, tuple[float, int]] = {}  # down since when; restarts before the last kill

    def add(self, name: str, processes: Mapping[str, Mapping[str, Any]], now: float) -> None:
        """A process that is killed again before it was up counts as down since the first kill."""
        self.killed[service_of(name)] += 1
        self._down[name] = (self._down.get(name, (now, 0))[0], processes[name]["restarts"])

    def update(self, processes: Mapping[str, Mapping[str, Any]], now: float) -> None:
        for name, (since, restarts) in list(self._down.items()):
            if processes[name]["state"] == "up" and processes[name]["restarts"] > restarts:
                self.down_s.append(now - since)
                del self._down[name]


def _decided(run: FaultRun) -> str:
    try:
        return f"{run.stack.database.decided(run.sale):,}"
    except psycopg.Error:
        return "an unknown number"  # Postgres may be the process that was killed
