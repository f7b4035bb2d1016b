"""Lab 10. A topic gets a third partition while one of two is slow. Broken: hash of the key modulo partitions. Fixed:
slots, which stay where they are until an operator moves them in four steps."""

from __future__ import annotations

import threading
import time
from collections import defaultdict

from django.db import OperationalError, connection

from seckill.lab.labs.child import Step
from seckill.lab.labs.lab import Bar, Chart, Observation, Variant
from seckill.lab.labs.steps import log_of_numbers as log
from seckill.messaging import slot_moves, slots
from seckill.messaging.consume_loop import ConsumeLoop
from seckill.messaging.models import SlotMap
from seckill.messaging.partitioners import slot_of
from seckill.messaging.records import Batch
from seckill.messaging.slots import SlotUnavailable, SlotWriter
from seckill.messaging.topics import Topic
from seckill.stack.child_processes import wait_until

USERS, MESSAGES_PER_USER = 60, 4
OLD, SLOW = 2, 0
OUTAGE_S = 1.0
BEFORE = USERS * MESSAGES_PER_USER // 2


class NotesUsers(log.NoteNumbers):
    """Notes who sent what. For the slow partition the database is unavailable until the outage ends."""

    def __init__(self, topic: Topic) -> None:
        super().__init__(topic)
        self.outage = threading.Event()
        self.outage.set()

    def handle(self, batch: Batch) -> None:
        if batch.partition == SLOW and self.outage.is_set():
            raise OperationalError("the database is unavailable for this partition")
        super().handle(batch)


def run(step: Step, variant: Variant) -> Observation:
    log.create_effects_table()
    topic = log.create_topic(step.bootstrap_servers, OLD)
    handler = NotesUsers(topic)
    loop = ConsumeLoop(handler, step.bootstrap_servers, "lab")

    def consume() -> None:
        try:
            loop.run()
        finally:
            connection.close()

    consumer = threading.Thread(target=consume)
    sending = send_by_modulo if variant is Variant.BROKEN else send_by_slots
    try:
        consumer.start()
        moved = sending(step, topic, handler)
        handler.outage.clear()
        wait_until(lambda: log.records_read(topic) == USERS * MESSAGES_PER_USER, "the consumer to read everything")
    finally:
        loop.stop()
        consumer.join()
    numbers: dict[int, list[int]] = defaultdict(list)
    for number in log.effects():
        numbers[number % USERS].append(number)
    overtaken = sum(each != sorted(each) for each in numbers.values())
    bars = (Bar("users", USERS), Bar("users whose partition changed", moved), Bar("users overtaken", overtaken, True))
    return Observation(
        overtaken,
        {"users": USERS, "messages": USERS * MESSAGES_PER_USER, "users whose partition changed": moved},
        Chart(y="users", bars=bars),
    )


def key_of(number: int) -> bytes:
    return f"user-{number % USERS}".encode()


def send_by_modulo(step: Step, topic: Topic, handler: NotesUsers) -> int:
    places: list[dict[bytes, int]] = [{}, {}]
    with log.producer(step.bootstrap_servers, metadata_max_age_ms=500) as producer:
        for number in range(2 * BEFORE):
            if number == BEFORE:
                grow(step, topic)
                wait_until(lambda: len(producer.partitions_for(topic.name)) > OLD, "the producer to see the partition")
            sent = producer.send(topic.name, key=key_of(number), value=log.value(number)).get(30)
            places[number >= BEFORE][key_of(number)] = sent.partition
    wait_until(lambda: log.records_read(topic, OLD), "the consumer to find the new partition")
    return sum(places[0][key] != places[1][key] for key in places[0])


def send_by_slots(step: Step, topic: Topic, handler: NotesUsers) -> int:
    """Half of the slots of the slow partition move. The move waits until the group has passed the old partition's end,
    so it ends only after the outage."""
    slots.ensure_slot_map(topic, OLD)
    with log.producer(
        step.bootstrap_servers, delivery_timeout_ms=10_000, request_timeout_ms=5_000, metadata_max_age_ms=500
    ) as producer:  # fmt: skip
        writer = SlotWriter(topic, "lab", producer)
        try:
            writer.start()
            for number in range(BEFORE):
                send_patiently(writer, number)
            grow(step, topic)
            threading.Timer(OUTAGE_S, handler.outage.clear).start()
            wanted = {slot_of(key_of(number)): OLD for number in range(0, USERS, 2)}
            before = list(SlotMap.objects.get(topic=topic.name).partition_of)
            slot_moves.move_slots(step.bootstrap_servers, topic, log.GROUP, wanted, step.tell)
            for number in range(BEFORE, 2 * BEFORE):
                send_patiently(writer, number)
        finally:
            writer.close()
    return sum(before[slot_of(key_of(user))] != wanted.get(slot_of(key_of(user)), before[slot_of(key_of(user))])
               for user in range(USERS))  # fmt: skip


def send_patiently(writer: SlotWriter, number: int) -> None:
    """A moving slot takes nothing for a moment; the gateway answers 503 with Retry-After then."""
    while True:
        try:
            writer.send(key_of(number), log.value(number)).get(10)
            return
        except SlotUnavailable:
            time.sleep(0.02)


def grow(step: Step, topic: Topic) -> None:
    slot_moves.add_partitions(step.bootstrap_servers, topic, OLD + 1)
    step.tell(f"the topic grows from {OLD} to {OLD + 1} partitions")
