"""One or two of three brokers are killed, frozen, stopped, or lose their disk."""

from __future__ import annotations

import shutil
import time

from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.cases.cluster_steps import (
    CLUSTER,
    MINORITY_S,
    SLOW,
    await_brokers,
    await_departure,
    await_in_sync,
    bring_back,
    count_copies,
    go_on_without,
    kill_broker,
    report_absence,
)
from seckill.lab.faults.cases.crash_points import count_refused, count_responses, wait_for_decisions
from seckill.lab.faults.fault_run import FaultRun
from seckill.stack.full_disk import full_disk


@case(
    "7a", "leader-killed", "kill -9 of the broker that leads most partitions of the queue, until others lead them",
    crowd=SLOW, brokers=CLUSTER,
)  # fmt: skip
def leader_killed(run: FaultRun) -> Steps:
    number, led = run.stack.brokers.leading()
    kill_broker(run, number)
    decided = go_on_without(run, number)
    bring_back(run, number)
    yield
    run.prove("partitions of the queue that it led", led)
    report_absence(run, decided)


@case(
    "7b", "controller-killed", "kill -9 of the broker that is the active controller, until another one has taken over",
    crowd=SLOW, brokers=CLUSTER,
)  # fmt: skip
def controller_killed(run: FaultRun) -> Steps:
    """Only an active controller can take the killed broker out of the in-sync replicas."""
    before = run.stack.brokers.quorum()
    kill_broker(run, before.controller)
    await_departure(run, before.controller)
    after = run.stack.brokers.quorum(spared={before.controller})
    decided = wait_for_decisions(run, "decisions without it")
    bring_back(run, before.controller)
    yield
    run.prove("another controller", after.controller != before.controller)
    run.prove("later epochs of the quorum", after.epoch - before.epoch)
    report_absence(run, decided)


@case(
    "8a", "follower-frozen", "a follower is frozen until it has left the in-sync replicas, and then catches up",
    crowd=SLOW, brokers=CLUSTER,
)  # fmt: skip
def follower_frozen(run: FaultRun) -> Steps:
    brokers = run.stack.brokers
    busy = {brokers.leading()[0], brokers.quorum().controller}
    number = max(set(brokers.numbers) - busy)
    with run.stack.frozen(brokers.process(number)):
        decided = go_on_without(run, number)
    await_in_sync(run)
    yield
    run.prove("partitions that it follows again", count_copies(run, number))
    report_absence(run, decided)


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
    await_in_sync(run)
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
        bring_back(run, number)
    yield
    run.prove("brokers stopped and started", len(stack.brokers.numbers))
    run.record("attempts turned away", count_refused(run))


@case(
    "8d", "broker-wiped", "a broker loses its disk, returns with an empty folder, catches up and may vote again",
    crowd=SLOW, brokers=CLUSTER, not_on_kafka="`mqcore quorum adopt` lets the new folder vote",
)  # fmt: skip
def broker_wiped(run: FaultRun) -> Steps:
    brokers = run.stack.brokers
    number, _ = brokers.leading()
    kill_broker(run, number)
    await_departure(run, number)
    lost = brokers.quorum(spared={number}).voters[number]
    shutil.rmtree(brokers.folder(number))
    brokers.format_lost_folders()
    bring_back(run, number)
    await_brokers(run, lambda: number in brokers.quorum().observers, "the new folder to follow the metadata")
    brokers.adopt(number)
    await_brokers(run, lambda: brokers.quorum().voters[number] != lost, "the new folder to vote")
    yield
    run.prove("partitions copied again", count_copies(run, number))
    run.prove("votes with its new folder", brokers.quorum().voters[number] != lost)
    run.record("attempts turned away", count_refused(run))


@case(
    "8e", "broker-disk-full", "the disk of the broker that leads most partitions of the queue is full for a while",
    crowd=SLOW, brokers=CLUSTER, not_on_kafka="a full disk stops a broker of Kafka",
)  # fmt: skip
def broker_disk_full(run: FaultRun) -> Steps:
    """It can store neither purchases nor copies. What it leads accepts nothing meanwhile; the others remove it from the
    in-sync replicas of what they lead, which takes up to `replica.lag.time.max.ms`."""
    brokers = run.stack.brokers
    number, led = brokers.leading()
    with full_disk(run.stack.pid(brokers.process(number))):
        before = {each: brokers.stored_bytes(each) for each in brokers.numbers}
        decided = wait_for_decisions(run, "decisions beside it")
        time.sleep(MINORITY_S)
        grown = {each: brokers.stored_bytes(each) - before[each] for each in brokers.numbers}
    await_in_sync(run)
    yield
    run.prove("partitions of the queue that it led", led)
    run.prove("bytes stored meanwhile by the others", sum(grown.values()) - grown[number])
    run.prove("not one byte stored by it", grown[number] <= 0)
    run.prove("bytes that it has stored since", brokers.stored_bytes(number) - before[number] - grown[number])
    report_absence(run, decided)
