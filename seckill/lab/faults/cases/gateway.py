"""The gateway crashes just before or just after a request is stored."""

from __future__ import annotations

from seckill.lab.faults.case import Steps, case
from seckill.lab.faults.cases.crash_points import count_refused, crash_at
from seckill.lab.faults.fault_run import FaultRun


@case("3", "gateway-killed-after-ack", "the gateway crashes after the broker stored a request, before it responds")
def after_ack(run: FaultRun) -> Steps:
    yield from crash_at(run, "gateway", "gateway.after_ack")
    run.prove("attempts without an answer", count_refused(run))


@case("4", "gateway-killed-before-produce", "the gateway crashes after it admitted a request, before it sends it")
def before_produce(run: FaultRun) -> Steps:
    yield from crash_at(run, "gateway", "gateway.before_produce")
    run.prove("attempts without an answer", count_refused(run))
