"""Celery and the message sinks fail; they only make messages fast, so nothing may be lost."""

from __future__ import annotations

import time

from redis import Redis

from seckill.lab.faults.case import PAYMENT_TTL_S, CrowdPlan, Steps, case
from seckill.lab.faults.cases.payments import control_sandbox
from seckill.lab.faults.fault_run import FaultRun

OUTAGE_S = 6.0


@case(
    "30", "celery-killed", "the Celery worker is killed in the middle of its tasks, and its queue is flushed",
    crowd=CrowdPlan(units=400),
)  # fmt: skip
def celery_killed(run: FaultRun) -> Steps:
    queue: Redis = Redis.from_url(run.stack.environment["SECKILL_CELERY_REDIS_URL"], socket_timeout=5)
    control_sandbox(run, "sinks", channel="sms", mode="hang")
    try:
        run.stack.wait_until(lambda: queue.llen("celery"), "tasks in the queue")
        before = run.stack.restarts("celery")
        tasks = int(queue.dbsize() and queue.llen("celery"))
        run.stack.send("kill", name="celery")
        queue.flushdb()
    finally:
        control_sandbox(run, "sinks", channel="sms", mode="ok")
    run.stack.wait_until(lambda: run.stack.restarts("celery") > before, "the worker to be back")
    yield
    run.prove("workers killed", run.stack.restarts("celery") - before)
    run.prove("tasks lost with the queue", tasks)


@case("31", "celery-down", "no Celery worker runs for longer than buyers have to pay", crowd=CrowdPlan(over_s=6))
def celery_down(run: FaultRun) -> Steps:
    run.stack.send("stop", name="celery")
    time.sleep(1.5 * PAYMENT_TTL_S)
    expired = run.stack.database.orders("EXPIRED", run.sale)
    due = run.stack.database.deliveries_due()
    run.stack.send("start", name="celery")
    yield
    run.prove("orders that expired without it", expired)
    run.prove("messages that waited for it", due)


@case(
    "32", "sink-fails", "the sink of one channel refuses messages and then hangs; the other channels go on",
    crowd=CrowdPlan(over_s=8),
)  # fmt: skip
def sink_fails(run: FaultRun) -> Steps:
    began_ms = time.time_ns() // 1_000_000
    for mode in ("fail", "hang"):
        control_sandbox(run, "sinks", channel="email", mode=mode)
        time.sleep(OUTAGE_S / 2)
    control_sandbox(run, "sinks", channel="email", mode="ok")
    ended_ms = time.time_ns() // 1_000_000
    yield
    lines = [line for line in run.stack.sandbox_log("sinks") if line["at_ms"] >= began_ms]
    run.prove("messages refused", sum(line["what"] == "refused" for line in lines))
    others = [line for line in lines if line["what"] == "effect" and line["channel"] != "email"]
    run.prove("messages of other channels meanwhile", sum(line["at_ms"] < ended_ms for line in others))
