"""The network between three brokers is cut, in both directions or in one, or breaks all the time. Clients reach every
broker, also one that no other broker can hear."""

from __future__ import annotations

import time
from collections.abc import Iterable

from seckill.lab.faults.case import Steps, case
from seckill.lab.faults.cases.cluster_steps import (
    CLUSTER,
    MINORITY_S,
    SLOW,
    await_brokers,
    await_in_sync,
    count_copies,
    go_on_without,
    report_absence,
)
from seckill.lab.faults.cases.crash_points import count_responses, wait_for_decisions
from seckill.lab.faults.fault_run import FaultRun
from seckill.stack.broker_network import EVERYTHING, around, from_broker, to_broker
from seckill.stack.broker_relay import Pair

RESETS = 20
RESET_EVERY_S = 0.5


@case(
    "8f", "minority-cut-off", "the broker that leads most partitions of the queue is cut off from the other two",
    crowd=SLOW, brokers=CLUSTER,
)  # fmt: skip
def minority_cut_off(run: FaultRun) -> Steps:
    number, led = run.stack.brokers.leading()
    yield from _cut_off(run, number, led, around(number))


@case(
    "8g", "majority-cut-off", "no broker reaches another one, so no purchase can be stored, until they do again",
    crowd=SLOW, brokers=CLUSTER,
)  # fmt: skip
def majority_cut_off(run: FaultRun) -> Steps:
    """None of them can store with `min.insync.replicas` = 2, or be the controller."""
    network = run.stack.network
    held = network.count_held()
    with network.cut(EVERYTHING):
        time.sleep(MINORITY_S)
        held = network.count_held() - held
    await_in_sync(run)
    yield
    counts = count_responses(run)
    run.prove("held back between brokers", held)
    run.prove("attempts answered with 503", counts["503"])
    run.record("of them with an unknown outcome", counts["queue-unknown"])


@case(
    "8h", "leader-unheard", "the broker that leads most partitions hears the other two, but they do not hear it",
    crowd=SLOW, brokers=CLUSTER,
)  # fmt: skip
def leader_unheard(run: FaultRun) -> Steps:
    number, led = run.stack.brokers.leading()
    yield from _cut_off(run, number, led, from_broker(number))


@case(
    "8i", "leader-deaf", "the other two hear the broker that leads most partitions, but it does not hear them",
    crowd=SLOW, brokers=CLUSTER,
)  # fmt: skip
def leader_deaf(run: FaultRun) -> Steps:
    number, led = run.stack.brokers.leading()
    yield from _cut_off(run, number, led, to_broker(number))


@case(
    "8j", "follower-slow", "a follower gets its copies too slowly, is removed by its leader, and catches up later",
    crowd=SLOW, brokers=CLUSTER,
)  # fmt: skip
def follower_slow(run: FaultRun) -> Steps:
    """The controller hears the follower all the time, so only the leader can notice (`replica.lag.time.max.ms`)."""
    brokers, network = run.stack.brokers, run.stack.network
    controller = brokers.quorum().controller
    leader, follower = sorted(set(brokers.numbers) - {controller})
    held = network.count_held()
    with network.cut({Pair(leader, follower)}):
        await_brokers(run, lambda: not _follows(run, follower, leader), f"broker {leader} to remove {follower}")
        kept = _follows(run, follower, controller)
        decided = wait_for_decisions(run, "decisions without its copies")
        held = network.count_held() - held
    await_in_sync(run)
    yield
    run.prove("held back between the two", held)
    run.prove("partitions of the controller that it followed all the time", kept)
    run.prove("partitions that it follows again", count_copies(run, follower))
    report_absence(run, decided)


@case(
    "8k", "broker-links-reset", f"all connections between the brokers are reset, {RESETS} times in ten seconds",
    crowd=SLOW, brokers=CLUSTER,
)  # fmt: skip
def broker_links_reset(run: FaultRun) -> Steps:
    before, resets = run.stack.database.decided(), 0
    for _ in range(RESETS):
        resets += run.stack.network.reset(EVERYTHING)
        time.sleep(RESET_EVERY_S)
    decided = wait_for_decisions(run, "decisions in spite of it", before=before)
    await_in_sync(run)
    yield
    run.prove("connections reset", resets)
    report_absence(run, decided)


def _cut_off(run: FaultRun, number: int, led: int, directions: Iterable[Pair]) -> Steps:
    """Until the others lead everything; then the broker follows them."""
    network = run.stack.network
    held = network.count_held()
    with network.cut(directions):
        decided = go_on_without(run, number)
        held = network.count_held() - held
    await_in_sync(run)
    yield
    run.prove("partitions of the queue that it led", led)
    run.prove("held back between brokers", held)
    run.prove("partitions that it follows again", count_copies(run, number))
    report_absence(run, decided)


def _follows(run: FaultRun, follower: int, leader: int) -> int:
    """How many partitions of the leader the follower is in sync with."""
    found = run.stack.brokers.partitions().values()
    return sum(each.leader == leader and follower in each.in_sync for each in found)
