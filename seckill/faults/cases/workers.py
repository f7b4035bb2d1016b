"""Celery and the sinks: what only makes things prompt may go away."""

from __future__ import annotations

import time

from redis import Redis

from seckill.faults.case import PAYMENT_TTL_S, Acts, Rush, case
from seckill.faults.cases.money import control
from seckill.faults.world import World

OUTAGE_S = 6.0


@case(
    "30", "celery-killed", "the worker dies in the middle of its tasks, and its queue is flushed", rush=Rush(units=400)
)
def celery_killed(world: World) -> Acts:
    queue: Redis = Redis.from_url(world.environment["SECKILL_CELERY_REDIS_URL"], socket_timeout=5)
    control(world, "sinks", channel="sms", mode="hang")
    try:
        world.wait_until(lambda: queue.llen("celery"), "tasks to pile up")
        before = world.restarts("celery")
        tasks = int(queue.dbsize() and queue.llen("celery"))
        world.word("kill", name="celery")
        queue.flushdb()
    finally:
        control(world, "sinks", channel="sms", mode="ok")
    world.wait_until(lambda: world.restarts("celery") > before, "the worker to be back")
    yield
    world.proves("workers killed", world.restarts("celery") - before)
    world.proves("tasks lost with the queue", tasks)


@case("31", "celery-down", "no worker for longer than an order has time", rush=Rush(over_s=6))
def celery_down(world: World) -> Acts:
    world.word("stop", name="celery")
    time.sleep(1.5 * PAYMENT_TTL_S)
    expired = world.count("orders_order WHERE sale_id = %s AND state = 'EXPIRED'", world.sale)
    due = world.count("notifications_delivery WHERE state = 'due'")
    world.word("start", name="celery")
    yield
    world.proves("orders ended without it", expired)
    world.proves("messages that waited for it", due)


@case("32", "sink-fails", "one channel's sink refuses and then hangs; the others go on", rush=Rush(over_s=8))
def sink_fails(world: World) -> Acts:
    began_ms = time.time_ns() // 1_000_000
    for mode in ("fail", "hang"):
        control(world, "sinks", channel="email", mode=mode)
        time.sleep(OUTAGE_S / 2)
    control(world, "sinks", channel="email", mode="ok")
    ended_ms = time.time_ns() // 1_000_000
    yield
    lines = [line for line in world.outside("sinks") if line["at_ms"] >= began_ms]
    world.proves("messages refused", sum(line["what"] == "refused" for line in lines))
    others = [line for line in lines if line["what"] == "effect" and line["channel"] != "email"]
    world.proves("messages of other channels meanwhile", sum(line["at_ms"] < ended_ms for line in others))
