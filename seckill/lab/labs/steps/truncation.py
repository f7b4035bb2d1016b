"""Lab 14. A follower starts after a change of leader. Broken: it cuts its log at the high watermark (before KIP-101).
Fixed: it asks where the leader's epochs end. mqcore's own machines run in simulated time, step by step."""

from __future__ import annotations

import re
import subprocess
import sys

from seckill.lab.lab_stack import ExperimentFailed
from seckill.lab.labs.child import Step
from seckill.lab.labs.excerpt import ROOT
from seckill.lab.labs.lab import Bar, Chart, Observation, Variant

SIMULATION = "tests.simulation.replication"
HOLDS, VIOLATED = 0, 1
BUG = {Variant.BROKEN: ("--bug", "M1"), Variant.FIXED: ()}
RECORD = re.compile("\\d+[⁰¹²³⁴⁵⁶⁷⁸⁹]+")


def run(step: Step, variant: Variant) -> Observation:
    told = _tell_scenario(BUG[variant])
    for line in told:
        if line.startswith("broker ") or "VIOLATED" in line or "producer" in line:
            step.tell(line.partition(":")[0] if "VIOLATED" in line else line)
    acknowledged = _records(
        next(line for line in told if line.startswith("fetches of")).split("*")[1].partition("|")[0]
    )
    last_leader = _records([line for line in told if line.startswith("the metadata reach")][-1].rpartition("*")[2])
    lost = len(acknowledged - last_leader)
    bars = (
        Bar("acknowledged with acks=all", len(acknowledged)),
        Bar("in the last leader's log", len(last_leader)),
        Bar("lost", lost, True),
    )
    return Observation(
        lost,
        {"acknowledged with acks=all": len(acknowledged),
         "brokers that died": sum("is killed" in line for line in told),
         "in the last leader's log": len(last_leader)},
        Chart(y="records", bars=bars),
    )  # fmt: skip


def _records(text: str) -> set[str]:
    return set(RECORD.findall(text))


def _tell_scenario(bug: tuple[str, ...]) -> list[str]:
    """A process of its own, because the sale imports nothing of the broker."""
    if not (ROOT / "tests" / "simulation").is_dir():
        raise ExperimentFailed("this lab needs the simulations in tests/, which only a clone of the repository has")
    command = [sys.executable, "-m", SIMULATION, "s1", *bug]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    if done.returncode not in (HOLDS, VIOLATED):
        raise ExperimentFailed(f"{' '.join(command)} exited with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout.splitlines()
