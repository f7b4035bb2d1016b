"""The broker hangs, is down, or is killed. Of three brokers it is the one that leads most of the queue, except that all
are down together, because the other two would go on."""

from __future__ import annotations

import time

from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.cases.crash_points import count_refused, count_responses
from seckill.lab.faults.fault_run import FaultRun

OUTAGE_S = 5.0
HANG_S = 6.0


@case(
    "5", "broker-stalls", "the broker hangs, so the gateway cannot know whether a request was stored",
    crowd=CrowdPlan(over_s=8), stops_brokers=True,
)  # fmt: skip
def broker_stalls(run: FaultRun) -> Steps:
    with run.stack.frozen(run.stack.leading_broker):
        time.sleep(HANG_S)
    yield
    counts = count_responses(run)
    run.prove("answered that the outcome is unknown", counts["queue-unknown"] + counts["0"])
    run.record("answered that the queue is unavailable", counts["queue-unavailable"])


@case(
    "6", "broker-down", "the broker is down for some seconds in the middle of the sale",
    crowd=CrowdPlan(over_s=8), stops_brokers=True,
)  # fmt: skip
def broker_down(run: FaultRun) -> Steps:
    service = run.stack.brokers.service
    run.stack.send("stop", name=service)
    time.sleep(OUTAGE_S)
    run.stack.send("start", name=service)
    yield
    run.prove("attempts turned away", count_refused(run))


@case("7", "broker-killed", "kill -9 of the broker, twice", crowd=CrowdPlan(over_s=8), stops_brokers=True)
def broker_killed(run: FaultRun) -> Steps:
    service = run.stack.brokers.service
    before = run.stack.restarts(service)
    for kills in (1, 2):
        run.stack.send("kill", name=run.stack.leading_broker)
        run.stack.wait_until(
            lambda: run.stack.restarts(service) >= before + kills and run.stack.is_up(service),  # noqa: B023
            "the broker to be back",
        )
    yield
    run.prove("processes killed", run.stack.restarts(service) - before)
