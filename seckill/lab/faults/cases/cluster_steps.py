"""What the cases on three brokers share: a broker leaves, the others go on, it comes back, and what that proves."""

from __future__ import annotations

from collections.abc import Callable

from kafka.errors import KafkaError

from seckill.lab.faults.case import CrowdPlan
from seckill.lab.faults.cases.crash_points import count_refused, wait_for_decisions
from seckill.lab.faults.fault_run import FaultRun

CLUSTER = 3
SLOW = CrowdPlan(buyers=300, over_s=20)
MINORITY_S = 12.0
"""Longer than the session of a broker, so that brokers lose what they lead as soon as a controller can act."""


def go_on_without(run: FaultRun, number: int) -> int:
    """Wait until the others lead everything and purchases are decided. Returns the number of decisions."""
    await_departure(run, number)
    return wait_for_decisions(run, "decisions without it")


def report_absence(run: FaultRun, decided: int) -> None:
    run.prove("decided meanwhile", decided)
    run.record("attempts turned away", count_refused(run))


def kill_broker(run: FaultRun, number: int) -> None:
    """kill -9, without a restart."""
    process = run.stack.brokers.process(number)
    run.stack.send("kill", name=process)
    run.stack.send("stop", name=process)


def bring_back(run: FaultRun, number: int) -> None:
    run.stack.send("start", name=run.stack.brokers.process(number))
    await_in_sync(run)


def await_departure(run: FaultRun, number: int) -> None:
    """Until the broker is in sync nowhere, and others lead every partition."""
    brokers = run.stack.brokers
    others = set(brokers.numbers) - {number}

    def has_left() -> bool:
        return all(
            each.leader in others and number not in each.in_sync for each in brokers.partitions({number}).values()
        )

    await_brokers(run, has_left, f"broker {number} to leave the in-sync replicas")


def await_in_sync(run: FaultRun) -> None:
    run.stack.wait_until_up(run.stack.brokers.service)
    await_brokers(run, run.stack.brokers.are_in_sync, "all replicas to be in sync")


def await_brokers(run: FaultRun, condition: Callable[[], bool], what: str) -> None:
    """Brokers that do not answer during a fault are asked again."""

    def holds() -> bool:
        try:
            return condition()
        except KafkaError:
            return False

    run.stack.wait_until(holds, what)


def count_copies(run: FaultRun, number: int) -> int:
    """Partitions of which the broker has an in-sync replica."""
    return sum(number in each.in_sync for each in run.stack.brokers.partitions().values())
