"""What several cases share: let a service crash at a named point of its code, count what the crowd was answered, and
wait for inventory to go on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from seckill.lab.faults.case import Steps
from seckill.lab.faults.fault_run import FaultRun

PROGRESS_MIN = 5


def crash_at(run: FaultRun, service: str, point: str) -> Steps:
    """Each process of the service crashes once at this point, if it gets there."""
    yield from crash({service: (f"{point}:once",)}, run)


def crash(points: Mapping[str, tuple[str, ...]], run: FaultRun) -> Steps:
    """At least one process of each service crashes at all of its points, one after each restart. Processes that did not
    get there are restarted afterwards without the fault points."""
    stack = run.stack
    before: dict[str, int] = {}
    for service, its_points in points.items():
        processes = stack.processes()
        before |= {name: processes[name]["restarts"] + 1 for name in stack.instances(service)}  # + 1: ours
        stack.restart_with(service, SECKILL_FAULT=",".join(its_points))

    def crashes(service: str) -> dict[str, int]:
        processes = stack.processes()
        return {name: processes[name]["restarts"] - before[name] for name in stack.instances(service)}

    for service, its_points in points.items():
        count = len(its_points)
        stack.wait_until(lambda: max(crashes(service).values()) >= count, f"{service} to crash at {its_points}")  # noqa: B023
    yield
    for service, its_points in points.items():
        crashed = crashes(service)
        run.prove(f"{service} killed", sum(crashed.values()))
        for name in [name for name, times in crashed.items() if times < len(its_points)]:
            stack.send("stop", name=name)
            stack.send("start", name=name)
    stack.wait_until_up(*points)


def count_responses(run: FaultRun) -> Counter[str]:
    """Responses to all purchase attempts in the crowd's sale and during the fault: by status, and by the last part of
    the problem's type."""
    counts: Counter[str] = Counter()
    background = run.crowd.log.with_suffix(".background.scripted.jsonl")
    for path in filter(Path.exists, (run.crowd.log, background)):
        for record in map(json.loads, path.read_text().splitlines()):
            if record["what"] == "purchase":
                counts[str(record["status"])] += 1
                if record.get("problem"):
                    counts[str(record["problem"]).rpartition("/")[2]] += 1
    return counts


def count_refused(run: FaultRun) -> int:
    """Attempts that got no response, or were told to come back later."""
    counts = count_responses(run)
    return counts["0"] + counts["503"] + counts["502"]


def wait_for_decisions(run: FaultRun, what: str, seconds_max: float = 60.0, before: int | None = None) -> int:
    """Wait until there are some more decisions than `before`, or than now, in all sales. Returns how many more."""
    before = run.stack.database.decided() if before is None else before
    run.stack.wait_until(lambda: run.stack.database.decided() >= before + PROGRESS_MIN, what, seconds_max)
    return run.stack.database.decided() - before
