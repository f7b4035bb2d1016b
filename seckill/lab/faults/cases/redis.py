"""Redis loses its data, restores old data, hangs, or has a wrong counter."""

from __future__ import annotations

import shutil
import time
from itertools import count, islice

from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.cases.crash_points import count_refused
from seckill.lab.faults.fault_run import FaultRun
from seckill.messaging.partitioners import slot_of

HANG_S = 4.0
EXCESS_UNITS = 50
QUEUED_BUYERS = 40


@case("12", "redis-flushall", "FLUSHALL deletes everything in Redis")
def flushall(run: FaultRun) -> Steps:
    redis, database = run.stack.redis(), run.stack.database
    run.record("keys lost", redis.dbsize())
    before = database.gate_epoch(run.sale)
    redis.flushall()
    yield
    run.prove("times the gate was rebuilt", database.gate_epoch(run.sale) - before)


@case("13", "redis-restarted-old", "Redis restarts with its data of some seconds ago", crowd=CrowdPlan(over_s=8))
def restarted_with_old_data(run: FaultRun) -> Steps:
    folder, copy = run.stack.folder / "redis", run.stack.folder / "redis.old"
    shutil.copytree(folder, copy)
    decided = run.stack.database.decided(run.sale)
    run.stack.wait_until(lambda: run.stack.database.decided(run.sale) > decided + 20, "the sale to go on")
    keys = run.stack.redis().dbsize()
    run.stack.send("stop", name="redis")
    shutil.rmtree(folder)
    copy.rename(folder)
    run.stack.send("start", name="redis")
    run.stack.wait_until_up("redis")
    run.prove("decisions missing in Redis", run.stack.database.decided(run.sale) - decided)
    run.record("keys before and after", f"{keys:,} and {run.stack.redis().dbsize():,}")
    yield


@case(
    "14", "redis-stalls", "Redis hangs, so its clients cannot know whether a script has run",
    crowd=CrowdPlan(over_s=8),
)  # fmt: skip
def stalls(run: FaultRun) -> Steps:
    with run.stack.frozen("redis"):
        time.sleep(HANG_S)
    yield
    run.record("batches decided without the gate", run.stack.count_in_logs("does not answer", "inventory"))
    run.prove("attempts turned away", count_refused(run))


@case(
    "15a", "gate-lies",
    f"someone raises the counter in Redis by {EXCESS_UNITS} units, by hand, and the stock row has to refuse them",
)  # fmt: skip
def gate_lies(run: FaultRun) -> Steps:
    """All requests wait in one partition when it happens, so that one batch asks for more units than there are:
    inventory does not ask the gate any more about a stock row without units."""
    database = run.stack.database
    with run.buyer_log("gate-lies", run.stack.create_sale(1)) as log:
        run.stack.send("stop", name="inventory")
        for name in _users_of_one_partition(run):
            run.buyer(name, log).buy()
        before = database.gate_epoch(log.sale)
        key = f"sale:{{{log.sale}}}:gate:phone:{before}:free"
        run.record("units according to Redis then", int(run.stack.redis().incrby(key, EXCESS_UNITS)))
        run.stack.send("start", name="inventory")
        run.stack.wait_until(lambda: database.decided(log.sale) >= QUEUED_BUYERS, "all requests to be decided")
    yield
    run.prove("times the gate was rebuilt", database.gate_epoch(log.sale) - before)
    run.prove("refused by the stock row", database.decided_as("SOLD_OUT", log.sale))


def _users_of_one_partition(run: FaultRun) -> list[str]:
    partition_of = run.stack.database.slots().partition_of
    names = (f"believer-{number}" for number in count())
    return list(islice((name for name in names if partition_of[slot_of(name.encode())] == 0), QUEUED_BUYERS))
