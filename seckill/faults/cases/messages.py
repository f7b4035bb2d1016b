"""What stands in the topics is wrong, old, late, or far too much."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from seckill.envelope import Envelope
from seckill.faults import progress
from seckill.faults.case import PAYMENT_TTL_S, Acts, Rush, case
from seckill.faults.crowd import Book, Buyer, at_once
from seckill.faults.world import World
from seckill.streams.partitioners import Chosen, HashSlots
from seckill.topics import PURCHASE_REQUESTS

KILLER = "killer"
LATE, IN_TIME = 300, 300
LATE_AFTER_S = 3.0
FLOOD = 100_000
OLD = 10
MINUTES_MS = 10 * 60 * 1000


@case("19", "poison", "messages that cannot be read, of five kinds, and one that kills whoever reads it")
def poison(world: World) -> Acts:
    producer = _producer(world)
    for key, value in _poisons():
        producer.send(PURCHASE_REQUESTS.name, key=key, value=value).get(10)
    producer.close()
    request = _let_kill(world, "poison", f"{KILLER}-19")
    yield
    letters = world.query(
        "SELECT reason, attempts FROM streams_dead_letter WHERE consumer_group = 'inventory' AND state = 'open'"
    )
    world.proves("dead letters of unreadable messages", sum("died" not in reason for reason, _ in letters))
    world.proves("dead letters of the one that kills", sum("died" in reason for reason, _ in letters))
    world.tells("decided of it", world.count("inventory_decided WHERE request_id = %s", request))


def _poisons() -> list[tuple[bytes, bytes | None]]:
    body: dict[str, Any] = {"user_id": "nobody", "request_id": "no id", "quantity": "many"}
    wrong = Envelope(uuid4(), "PurchaseRequested", 1, body).encode()
    unknown = Envelope(uuid4(), "SomethingElse", 99, {"user_id": "nobody"}).encode()
    deep = b'{"event_id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    return [
        (b"nobody", None),
        (b"nobody", b"\xff\xfe no text"),
        (b"nobody", deep),
        (b"nobody", wrong),
        (b"nobody", unknown),
    ]


@case("20", "dead-letter-replayed-twice", "a request that was dead-lettered is replayed, twice at once")
def replayed_twice(world: World) -> Acts:
    request = _let_kill(world, "replayed", f"{KILLER}-20")
    letter = str(world.query("SELECT max(id) FROM streams_dead_letter WHERE state = 'open'")[0][0])
    told = at_once([lambda: world.seckill("letters", "replay", letter, "--yes") for _ in range(2)])
    yield
    world.proves("decided once", world.count("inventory_decided WHERE request_id = %s", request) == 1)
    world.proves("replayed", world.count("streams_dead_letter WHERE id = %s AND state = 'replayed'", letter))
    world.tells("the replays said", " / ".join(text.strip().splitlines()[-1] for text in told if text.strip()))


def _let_kill(world: World, name: str, user: str) -> str:
    """A request at which every reader dies, until it is given up; then the readers are whole again."""
    before = world.restarts("inventory")
    world.restart_with("inventory", SECKILL_FAULT=f"inventory.reading.{user}")
    with world.book(name) as book:
        request = Buyer(world.gateway, user, world.sale, book).buy().request
    world.wait_until(
        lambda: world.count(
            "streams_dead_letter WHERE reason LIKE '%%died%%' AND convert_from(key, 'UTF8') = %s", user
        ),
        "the one that kills to be given up",
    )
    world.restart_with("inventory")
    world.proves("readers killed", world.restarts("inventory") - before - 4)  # two stops and starts of each are ours
    return request


@case("23", "backlog", "the queue stands still; whose deadline passes meanwhile is told so")
def backlog(world: World) -> Acts:
    world.word("stop", name="inventory")
    with world.book("backlog") as book:
        now_ms = time.time_ns() // 1_000_000
        late = [f"late-{number}" for number in range(LATE)]
        patient = [f"patient-{number}" for number in range(IN_TIME)]
        _put(world, book, late, world.sale, now_ms, int(LATE_AFTER_S * 1000))
        _put(world, book, patient, world.sale, now_ms, MINUTES_MS)
        time.sleep(LATE_AFTER_S)
    world.tells("in the queue then", progress.in_flight(world))
    world.word("start", name="inventory")
    yield
    world.proves("told that they are too late", world.count("inventory_decided WHERE decision = 'TOO_LATE'"))


@case("24", "sold-out-drain", f"{FLOOD:,} stand in the queue of a sale that is sold out at once", rush=Rush(buyers=40))
def sold_out_drain(world: World) -> Acts:
    world.word("stop", name="inventory")
    sale = world.create_sale(100)
    with world.book("drain", sale) as book:
        users = [f"flood-{number}" for number in range(world.scaled(FLOOD))]
        _put(world, book, users, sale, time.time_ns() // 1_000_000, MINUTES_MS)
    began = time.monotonic()
    world.word("start", name="inventory")
    world.wait_until(lambda: world.decided(sale) >= len(users), "the queue to be drained", 600)
    seconds = time.monotonic() - began
    yield
    world.proves("requests drained", world.decided(sale))
    world.tells("decided a second", int(len(users) / seconds))


@case("28", "old-message-again", "an order expires, its buyer buys again, and the old message comes once more")
def old_message_again(world: World) -> Acts:
    with world.book("returns", world.create_sale(3)) as book:
        buyer = Buyer(world.gateway, "returns", book.sale, book)
        told = buyer.buy("old")
        buyer.wait_for(told.request, "EXPIRED")
        world.wait_until(
            lambda: buyer.look(told.request).get("may_buy_again"), "the unit to be back", PAYMENT_TTL_S * 4
        )
        new = buyer.buy("new").request
        buyer.wait_for(new, "AWAITING_PAYMENT", "EXPIRED")
        _send_again(world, int(told.body["partition"]), int(told.body["offset"]))
        world.wait_until(
            lambda: world.count("inventory_redelivery WHERE request_id = %s", told.request), "it to be read again"
        )
        after = buyer.look(told.request).get("state")
    yield
    world.proves("stood in the log again", world.count("inventory_redelivery WHERE request_id = %s", told.request))
    world.proves("the old one is still expired", after == "EXPIRED")
    world.proves("both were decided", world.count("inventory_decided WHERE user_id = 'returns'") == 2)


def _send_again(world: World, partition: int, offset: int) -> None:
    place = TopicPartition(PURCHASE_REQUESTS.name, partition)
    consumer = KafkaConsumer(bootstrap_servers=world.broker, enable_auto_commit=False)
    consumer.assign([place])
    consumer.seek(place, offset)
    [record, *_] = [record for records in consumer.poll(10_000, max_records=1).values() for record in records]
    consumer.close()
    producer = _producer(world)
    producer.send(record.topic, key=record.key, value=record.value, partition=partition).get(10)
    producer.close()


def _put(world: World, book: Book, users: Sequence[str], sale: int, now_ms: int, life_ms: int) -> None:
    """Past the gateway, straight into the queue: more in a moment than a gateway would let in."""
    [[sku]] = world.query("SELECT sku FROM inventory_stock WHERE sale_id = %s", sale)
    producer = _producer(world)
    sent = []
    for user in users:
        request = uuid4()
        body = {
            "request_id": str(request), "user_id": user, "sale_id": sale, "sku": sku, "quantity": 1,
            "admitted_at_ms": now_ms, "deadline_ms": now_ms + life_ms,
        }  # fmt: skip
        value = Envelope(request, "PurchaseRequested", 1, body).encode()
        sent.append((user, request, producer.send(PURCHASE_REQUESTS.name, key=user.encode(), value=value)))
    producer.flush()
    for user, request, future in sent:
        _note(book, user, sale, request, future.get(10), now_ms)
    producer.close()


def _note(book: Book, user: str, sale: int, request: UUID, place: Any, began_ms: int) -> None:
    book.write(
        "purchase", began_ms, user=user, key="only", sale=sale, quantity=1, status=202, request_id=str(request),
        partition=place.partition, offset=place.offset,
    )  # fmt: skip


def _producer(world: World) -> KafkaProducer:
    """It writes where the gateway would: another partition would be another place in the user's order."""
    return KafkaProducer(
        bootstrap_servers=world.broker, acks="all", linger_ms=5, batch_size=131_072,
        partitioner=Chosen(HashSlots(world.slots())),
    )  # fmt: skip


@case("40", "two-schemas", "half of the order events are written as the version before wrote them", rush=Rush(units=80))
def two_schemas(world: World) -> Acts:
    """As in a rolling upgrade: some processes still write the old form when the readers know the new one."""
    world.word("stop", name="relay.orders")
    world.wait_until(lambda: world.count("streams_outbox WHERE writer = 'orders'") >= OLD, "events to pile up")
    old = []
    for row, value in world.query("SELECT id, value FROM streams_outbox WHERE writer = 'orders' ORDER BY id"):
        said = json.loads(bytes(value))
        if row % 2 and said["version"] == 2 and not said["body"].pop("returned_units"):
            said["version"] = 1
            old.append(said["event_id"])
            world.change("UPDATE streams_outbox SET value = %s WHERE id = %s", json.dumps(said).encode(), row)
    world.word("start", name="relay.orders")
    yield
    world.proves("events in the old form", len(old))
    world.proves("of them settled", world.count("inventory_settled WHERE event_id = ANY(%s::uuid[])", old))
    world.proves("of them told to buyers", world.count("notifications_delivery WHERE event_id = ANY(%s::uuid[])", old))
