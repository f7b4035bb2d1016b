"""The queue itself changes: partitions are added and users' slots move there, or a second queue bypasses it."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import replace
from itertools import count, islice

from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.fault_run import FaultRun
from seckill.lab.lab_stack import ExperimentFailed
from seckill.messaging.partitioners import slot_of
from seckill.messaging.topics import PURCHASE_DIVERTED, PURCHASE_REQUESTS

PARTITIONS_ADDED = 4
MOVED_USERS = 20
PINNED_USERS = 10
GREEDY = CrowdPlan(over_s=8, options=("--greedy", "0.6"))
SLOW = replace(GREEDY, over_s=30)  # second purchases then find their slots in new partitions


@case("22", "slots-moved", "partitions are added and slots moved in the middle of the sale", crowd=SLOW)
def slots_moved(run: FaultRun) -> Steps:
    """Some buyers ask before and after the move of their own slot: I16 is about their order."""
    before = run.stack.database.slots()
    first_new = max(before.partition_of) + 1
    with run.buyer_log("slots-moved", run.side_sale) as log:
        names = _users_in(before.moves_to(first_new + PARTITIONS_ADDED), f"mover-{first_new}")
        buyers = [run.buyer(name, log, f"10.9.8.{number}") for number, name in enumerate(names)]
        for buyer in buyers:
            buyer.buy("before")
        output = run.stack.run_seckill("slots", "grow", str(first_new + PARTITIONS_ADDED), "--at-once", "128")
        if not re.search(r"(\d+) slots are moved", output):
            raise ExperimentFailed(f"slots grow: {output.strip()[-300:]}")
        for buyer in buyers:
            buyer.buy("after")
    yield
    after = run.stack.database.slots()
    pairs = zip(before.partition_of, after.partition_of, strict=True)
    run.prove("slots moved", sum(old != new for old, new in pairs))
    run.prove("decided in new partitions", run.stack.database.decided_in_new_partitions(first_new))
    run.record("partitions", first_new + PARTITIONS_ADDED)
    run.record("versions of the slot table", after.version - before.version)


@case(
    "23b", "queue-diverted",
    "a queue stands still and new requests bypass it, but no request overtakes an older one of the same buyer",
    crowd=GREEDY,
)  # fmt: skip
def queue_diverted(run: FaultRun) -> Steps:
    """Buyers who asked before the diversion ask again during it and must stay in the old queue: I16 is about them."""
    run.stack.send("stop", name="inventory")
    with run.buyer_log("queue-diverted", run.side_sale) as log:
        pinned = [run.buyer(f"stays-{number}", log) for number in range(PINNED_USERS)]
        for buyer in pinned:
            buyer.buy("before")
        _run_command(run, "backlog", "divert", expect="diverted;")
        for buyer in pinned:
            buyer.buy("after")
        for number in range(PINNED_USERS):
            run.buyer(f"goes-{number}", log).buy()
        run.stack.send("start", name="inventory")
        _run_command(run, "backlog", "rejoin", expect="joined again")
    yield
    database = run.stack.database
    run.prove("decided from the second queue", database.decided_from_topic(PURCHASE_DIVERTED.name))
    stayed = database.decided_from_topic(PURCHASE_REQUESTS.name, "stays-") - PINNED_USERS
    run.prove("asked again and stayed", stayed)
    run.record("overtook their own request", database.decided_from_topic(PURCHASE_DIVERTED.name, "stays-"))


def _run_command(run: FaultRun, *words: str, expect: str) -> None:
    output = run.stack.run_seckill(*words)
    if expect not in output:
        raise ExperimentFailed(f"{' '.join(words)}: {output.strip()[-300:]}")


def _users_in(slots: Container[int], prefix: str) -> list[str]:
    """Users whose slots are among these."""
    names = (f"{prefix}-{number}" for number in count())
    return list(islice((name for name in names if slot_of(name.encode()) in slots), MOVED_USERS))
