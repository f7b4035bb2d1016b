"""Records in the topics are unreadable, repeated, or written by an older version."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from seckill.config.kafka_clients import client_options
from seckill.lab import damage
from seckill.lab.faults.case import PAYMENT_TTL_S, CrowdPlan, Steps, case
from seckill.lab.faults.fault_run import FaultRun
from seckill.lab.faults.scripted_buyers import at_once
from seckill.messaging.envelope import Envelope
from seckill.messaging.partitioners import HashSlots, KafkaPartitioner
from seckill.messaging.records import CRASHED
from seckill.messaging.topics import PURCHASE_REQUESTS

KILLER = "killer"
OLD_EVENTS_MIN = 10


@case("19", "poison", "five kinds of unreadable records, and one request that crashes every consumer that reads it")
def poison(run: FaultRun) -> Steps:
    producer = producer_of(run)
    for key, value in _unreadable_records():
        producer.send(PURCHASE_REQUESTS.name, key=key, value=value).get(10)
    producer.close()
    request = _crash_readers(run, "poison", f"{KILLER}-19")
    yield
    reasons = run.stack.database.open_dead_letters("inventory")
    crashed = sum(reason.startswith(CRASHED) for reason in reasons)
    run.prove("dead letters of unreadable records", len(reasons) - crashed)
    run.prove("dead letters of the request that crashes its readers", crashed)
    run.record("decisions on that request", run.stack.database.decisions_of_request(request))


def _unreadable_records() -> list[tuple[bytes, bytes | None]]:
    body: dict[str, Any] = {"user_id": "unknown", "request_id": "no id", "quantity": "many"}
    wrong = Envelope(uuid4(), "PurchaseRequested", 1, body).encode()
    unknown = Envelope(uuid4(), "SomethingElse", 99, {"user_id": "unknown"}).encode()
    deep = b'{"event_id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    return [(b"unknown", value) for value in (None, b"\xff\xfe no text", deep, wrong, unknown)]


@case("20", "dead-letter-replayed-twice", "a dead-lettered request is replayed by two operators at once")
def replayed_twice(run: FaultRun) -> Steps:
    database = run.stack.database
    request = _crash_readers(run, "replayed", f"{KILLER}-20")
    letter = database.newest_open_dead_letter()
    outputs = at_once([lambda: run.stack.run_seckill("letters", "replay", str(letter), "--yes") for _ in range(2)])
    yield
    run.prove("decided once", database.decisions_of_request(request) == 1)
    run.prove("replayed", database.is_replayed(letter))
    run.record("output of the replays", " / ".join(text.strip().splitlines()[-1] for text in outputs if text.strip()))


def _crash_readers(run: FaultRun, name: str, user: str) -> str:
    """Send a request that crashes every consumer until it is given up; afterwards no consumer crashes any more."""
    stack = run.stack
    before = stack.restarts("inventory")
    stack.restart_with("inventory", SECKILL_FAULT=f"inventory.reading.{user}")
    with run.buyer_log(name) as log:
        request = run.buyer(user, log).buy().request
    stack.wait_until(lambda: stack.database.dead_letters_of_killer(user), "the request to become a dead letter")
    stack.restart_with("inventory")
    own_restarts = 4  # two restarts of two consumers
    run.prove("readers killed", stack.restarts("inventory") - before - own_restarts)
    return request


@case(
    "28", "old-message-again",
    "an order expires and its buyer buys again; then the record of the first request arrives a second time",
)  # fmt: skip
def old_message_again(run: FaultRun) -> Steps:
    database = run.stack.database
    with run.buyer_log("returns", run.stack.create_sale(3)) as log:
        buyer = run.buyer("returns", log)
        response = buyer.buy("old")
        old = response.request
        buyer.wait_for(old, "EXPIRED")
        run.stack.wait_until(lambda: buyer.poll(old).get("may_buy_again"), "the unit to be back", PAYMENT_TTL_S * 4)
        buyer.wait_for(buyer.buy("new").request, "AWAITING_PAYMENT", "EXPIRED")
        _repeat_record(run, int(response.body["partition"]), int(response.body["offset"]))
        run.stack.wait_until(lambda: database.redelivered(old), "inventory to read the record again")
        state = buyer.poll(old).get("state")
    yield
    run.prove("read a second time", database.redelivered(old))
    run.prove("the old request is still expired", state == "EXPIRED")
    run.prove("both requests were decided", database.decisions_of_user("returns") == 2)


def _repeat_record(run: FaultRun, partition: int, offset: int) -> None:
    place = TopicPartition(PURCHASE_REQUESTS.name, partition)
    consumer = KafkaConsumer(**client_options(run.stack.broker), enable_auto_commit=False)
    consumer.assign([place])
    consumer.seek(place, offset)
    [record, *_] = [record for records in consumer.poll(10_000, max_records=1).values() for record in records]
    consumer.close()
    producer = producer_of(run)
    producer.send(record.topic, key=record.key, value=record.value, partition=partition).get(10)
    producer.close()


def producer_of(run: FaultRun) -> KafkaProducer:
    """It partitions like the gateway, because other partitions would change the order of a user's requests."""
    return KafkaProducer(
        **client_options(run.stack.broker), acks="all", linger_ms=5, batch_size=131_072,
        partitioner=KafkaPartitioner(HashSlots(run.stack.database.slots())),
    )  # fmt: skip


@case(
    "40", "two-schemas", "half of the order events are in the format of the previous version, as in a rolling upgrade",
    crowd=CrowdPlan(units=80),
)  # fmt: skip
def two_schemas(run: FaultRun) -> Steps:
    stack, database = run.stack, run.stack.database
    stack.send("stop", name="relay.orders")
    stack.wait_until(lambda: database.unpublished("orders") >= OLD_EVENTS_MIN, "events in the outbox")
    old = []
    for row, value in database.outbox_events("orders"):
        event = json.loads(value)
        if row % 2 and event["version"] == 2 and not event["body"].pop("returned_units"):
            event["version"] = 1
            old.append(event["event_id"])
            damage.replace_event(database, row, json.dumps(event).encode())
    stack.send("start", name="relay.orders")
    yield
    run.prove("events in the old format", len(old))
    run.prove("of them settled by inventory", database.settled_events(old))
    run.prove("of them sent to buyers", database.deliveries_of_events(old))
