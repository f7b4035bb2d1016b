"""The request queue is long or stands still."""

from __future__ import annotations

import time
from collections.abc import Sequence
from uuid import uuid4

from seckill.lab.faults import settling
from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.cases.messages import producer_of
from seckill.lab.faults.fault_run import FaultRun
from seckill.lab.faults.scripted_buyers import BuyerLog
from seckill.messaging.envelope import Envelope
from seckill.messaging.topics import PURCHASE_REQUESTS

LATE, IN_TIME = 300, 300
LATE_AFTER_S = 3.0
BACKLOG = 100_000
DEADLINE_MS = 10 * 60 * 1000


@case("23", "backlog", "the queue stands still, and requests whose deadline passes meanwhile are refused as too late")
def backlog(run: FaultRun) -> Steps:
    run.stack.send("stop", name="inventory")
    with run.buyer_log("backlog") as log:
        now_ms = time.time_ns() // 1_000_000
        _enqueue(run, log, [f"late-{number}" for number in range(LATE)], now_ms, int(LATE_AFTER_S * 1000))
        _enqueue(run, log, [f"patient-{number}" for number in range(IN_TIME)], now_ms, DEADLINE_MS)
        time.sleep(LATE_AFTER_S)
    run.record("in the queue then", settling.in_flight(run.stack))
    run.stack.send("start", name="inventory")
    yield
    run.prove("refused as too late", run.stack.database.decided_as("TOO_LATE"))


@case(
    "24", "sold-out-drain", f"{BACKLOG:,} requests wait in the queue of a sale that sells out at once",
    crowd=CrowdPlan(buyers=40),
)  # fmt: skip
def sold_out_drain(run: FaultRun) -> Steps:
    database = run.stack.database
    run.stack.send("stop", name="inventory")
    sale = run.stack.create_sale(100)
    with run.buyer_log("drain", sale) as log:
        users = [f"flood-{number}" for number in range(run.scaled(BACKLOG))]
        _enqueue(run, log, users, time.time_ns() // 1_000_000, DEADLINE_MS)
    began = time.monotonic()
    run.stack.send("start", name="inventory")
    run.stack.wait_until(lambda: database.decided(sale) >= len(users), "the queue to be drained", 600)
    seconds = time.monotonic() - began
    yield
    run.prove("requests drained", database.decided(sale))
    run.record("decisions per second", int(len(users) / seconds))


def _enqueue(run: FaultRun, log: BuyerLog, users: Sequence[str], now_ms: int, deadline_ms: int) -> None:
    """Send requests straight to the topic, because one gateway would not admit this many at once."""
    sku = run.stack.database.sku(log.sale)
    producer = producer_of(run)
    sent = []
    for user in users:
        request = uuid4()
        body = {
            "request_id": str(request), "user_id": user, "sale_id": log.sale, "sku": sku, "quantity": 1,
            "admitted_at_ms": now_ms, "deadline_ms": now_ms + deadline_ms,
        }  # fmt: skip
        value = Envelope(request, "PurchaseRequested", 1, body).encode()
        sent.append((user, request, producer.send(PURCHASE_REQUESTS.name, key=user.encode(), value=value)))
    producer.flush()
    for user, request, future in sent:
        place = future.get(10)
        log.write(
            "purchase", now_ms, user=user, key="only", sale=log.sale, quantity=1, status=202, request_id=str(request),
            partition=place.partition, offset=place.offset,
        )  # fmt: skip
    producer.close()
