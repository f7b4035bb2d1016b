"""One or two of three brokers are killed, frozen, stopped, or lose their disk."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable

from kafka.errors import KafkaError

from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.cases.crash_points import count_refused, count_responses, wait_for_decisions
from seckill.lab.faults.fault_run import FaultRun

CLUSTER = 3
MINORITY_S = 12.0
"""Longer than the session of a broker, so the frozen ones lose what they lead as soon as a controller can act."""
SLOW = CrowdPlan(buyers=300, over_s=20)


@case(
    "7a", "leader-killed", "kill -9 of the broker that leads most partitions of the queue, until others lead them",
    crowd=SLOW, brokers=CLUSTER,
)  # fmt: skip
def leader_killed(run: FaultRun) -> Steps:
    number, led = run.stack.brokers.leading()
    _kill(run, number)
    decided = wait_for_decisions(run, "decisions without it")
    _bring_back(run, number)
    yield
    run.prove("partitions of the queue that it led", led)
    run.prove("decided while it was down", decided)
    run.record("attempts turned away", count_refused(run))


@case(
    "7b", "controller-killed", "kill -9 of the broker that is the active controller, until another one has taken over",
    crowd=SLOW, brokers=CLUSTER,
)  # fmt: skip
def controller_killed(run: FaultRun) -> Steps:
    """Only an active controller can take the killed broker out of the in-sync replicas."""
    before = run.stack.brokers.quorum()
    _kill(run, before.controller)
    after = run.stack.brokers.quorum(spared={before.controller})
    decided = wait_for_decisions(run, "decisions without it")
    _bring_back(run, before.controller)
    yield
    run.prove("another controller", after.controller != before.controller)
    run.prove("later epochs of the quorum", after.epoch - before.epoch)
    run.prove("decided while it was down", decided)
    run.record("attempts turned away", count_refused(run))


@case(
    "8a", "follower-frozen", "a follower is frozen until it has left the in-sync replicas, and then catches up",
    crowd=SLOW, brokers=CLUSTER,
)  # fmt: skip
def follower_frozen(run: FaultRun) -> Steps:
    brokers = run.stack.brokers
    busy = {brokers.leading()[0], brokers.quorum().controller}
    number = max(set(brokers.numbers) - busy)
    with run.stack.frozen(brokers.process(number)):
        _await_departure(run, number)
        decided = wait_for_decisions(run, "decisions without it")
    _await_in_sync(run)
    yield
    run.prove("decided while it was frozen", decided)
    run.prove("partitions that it follows again", _copies(run, number))
    run.record("attempts turned away", count_refused(run))


@case(
    "8b", "majority-frozen", "two of three brokers freeze, so no purchase can be stored, until they continue",
    crowd=SLOW, brokers=CLUSTER,
)  # fmt: skip
def majority_frozen(run: FaultRun) -> Steps:
    """The third broker can neither store with `min.insync.replicas` = 2 nor become the controller."""
    brokers = run.stack.brokers
    first, _ = brokers.leading()
    second = min(set(brokers.numbers) - {first})
    with run.stack.frozen(brokers.process(first)), run.stack.frozen(brokers.process(second)):
        time.sleep(MINORITY_S)
    _await_in_sync(run)
    yield
    counts = count_responses(run)
    run.prove("attempts answered with 503", counts["503"])
    run.record("of them with an unknown outcome", counts["queue-unknown"])


@case(
    "8c", "rolling-brokers", "each of three brokers is stopped and started again, when all replicas are in sync",
    crowd=CrowdPlan(buyers=300, over_s=40), brokers=CLUSTER,
)  # fmt: skip
def rolling_brokers(run: FaultRun) -> Steps:
    stack = run.stack
    for number in stack.brokers.numbers:
        stack.send("stop", name=stack.brokers.process(number))
        _bring_back(run, number)
    yield
    run.prove("brokers stopped and started", len(stack.brokers.numbers))
    run.record("attempts turned away", count_refused(run))


@case(
    "8d", "broker-wiped", "a broker loses its disk, returns with an empty folder, catches up and may vote again",
    crowd=SLOW, brokers=CLUSTER,
)  # fmt: skip
def broker_wiped(run: FaultRun) -> Steps:
    brokers = run.stack.brokers
    number, _ = brokers.leading()
    _kill(run, number)
    lost = brokers.quorum(spared={number}).voters[number]
    shutil.rmtree(brokers.folder(number))
    brokers.format_lost_folders()
    _bring_back(run, number)
    _await(run, lambda: number in brokers.quorum().observers, "the new folder to follow the metadata")
    brokers.adopt(number)
    _await(run, lambda: brokers.quorum().voters[number] != lost, "the new folder to vote")
    yield
    run.prove("partitions copied again", _copies(run, number))
    run.prove("votes with its new folder", brokers.quorum().voters[number] != lost)
    run.record("attempts turned away", count_refused(run))


# ── what the cases share ─────────────────────────────────────────────────────────────────────────


def _kill(run: FaultRun, number: int) -> None:
    """kill -9, without a restart, and wait until the other two have taken over everything."""
    process = run.stack.brokers.process(number)
    run.stack.send("kill", name=process)
    run.stack.send("stop", name=process)
    _await_departure(run, number)


def _bring_back(run: FaultRun, number: int) -> None:
    run.stack.send("start", name=run.stack.brokers.process(number))
    _await_in_sync(run)


def _await_departure(run: FaultRun, number: int) -> None:
    """Until the broker is in sync nowhere, and others lead every partition."""
    brokers = run.stack.brokers
    others = set(brokers.numbers) - {number}

    def has_left() -> bool:
        return all(
            each.leader in others and number not in each.in_sync for each in brokers.partitions({number}).values()
        )

    _await(run, has_left, f"broker {number} to leave the in-sync replicas")


def _await_in_sync(run: FaultRun) -> None:
    run.stack.wait_until_up("mqcore")
    _await(run, run.stack.brokers.are_in_sync, "all replicas to be in sync")


def _await(run: FaultRun, condition: Callable[[], bool], what: str) -> None:
    """Brokers that do not answer during a fault are asked again."""

    def holds() -> bool:
        try:
            return condition()
        except KafkaError:
            return False

    run.stack.wait_until(holds, what)


def _copies(run: FaultRun, number: int) -> int:
    return sum(number in each.in_sync for each in run.stack.brokers.partitions().values())
