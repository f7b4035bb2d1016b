"""Inventory crashes wherever it could lose or double a decision, and a zombie consumer wakes up too late."""

from __future__ import annotations

import time

from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.cases.crash_points import crash_at
from seckill.lab.faults.fault_run import FaultRun
from seckill.stack.process_log import is_frozen

SCALES = (4, 1, 3, 2)


@case("9", "inventory-killed-after-commit", "inventory crashes after its database commit, before the offset commit")
def after_commit(run: FaultRun) -> Steps:
    yield from crash_at(run, "inventory", "inventory.after_commit")


@case("10", "inventory-killed-before-commit", "inventory crashes after all its writes, before the database commit")
def before_commit(run: FaultRun) -> Steps:
    yield from crash_at(run, "inventory", "inventory.before_commit")


@case("11", "inventory-killed-after-redis", "inventory crashes after Redis granted units, before Postgres knows it")
def after_gate(run: FaultRun) -> Steps:
    yield from crash_at(run, "inventory", "inventory.after_gate")


@case(
    "21", "rebalance-storm", "consumers join and leave; one is frozen meanwhile and wakes up too late",
    crowd=CrowdPlan(over_s=10),
)  # fmt: skip
def rebalance_storm(run: FaultRun) -> Steps:
    stack = run.stack
    fenced = stack.count_in_logs("fenced", "inventory")
    zombie = "inventory.1"
    stack.send("stop", name=zombie)
    stack.send("start", name=zombie, **{"with": {"SECKILL_FAULT": "inventory.before_batch:freeze"}})
    stack.wait_until(lambda: is_frozen(stack.pid(zombie)), "a consumer to freeze before its next batch")
    before = stack.database.claims("inventory")
    stack.wait_until(  # while the owner is frozen, only its successor can claim a partition
        lambda: all(epoch > before.get(at, 0) for at, epoch in stack.database.claims("inventory").items()),
        "other consumers to take over its partitions",
    )
    stack.resume(zombie)
    for count in SCALES:
        stack.send("scale", service="inventory", count=count)
        time.sleep(1.0)
    yield
    late = sum(stack.log_of(name).count("fenced") for name in ("inventory.1", "inventory.2")) - fenced
    run.prove("late commits fenced", late)
    claims = sum(stack.database.claims("inventory").values()) - sum(before.values())
    run.record("claims of partitions meanwhile", claims)
    stack.restart_with("inventory")
