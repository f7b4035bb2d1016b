"""Slots are moved while a user sends, and the order is kept; without the steps of a move it is not."""

from __future__ import annotations

import threading
from unittest import mock

import pytest
from django.db import OperationalError

from seckill.messaging import slot_moves, slots
from seckill.messaging.models import SlotMap
from seckill.messaging.partitioners import slot_of
from seckill.messaging.records import Batch
from seckill.messaging.slots import SlotUnavailable, SlotWriter
from seckill.messaging.topics import Topic
from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.messaging_cast import Notes, effects, make_topic, value
from tests.concurrency.slots_cast import quiet, writing
from tests.concurrency.test_messaging_consume_loop import all_read, consuming
from tests.services import until

USER = b"user"
SLOT = slot_of(USER)


@pytest.fixture
def topic(broker: BrokerProcess) -> Topic:
    made = make_topic(broker.address)
    slots.ensure_slot_map(made, made.partitions)
    return made


def place(topic: Topic) -> int:
    return int(SlotMap.objects.get(topic=topic.name).partition_of[SLOT])


def other(topic: Topic) -> int:
    return 1 - place(topic)


def move_under_load(broker: BrokerProcess, topic: Topic) -> list[int]:
    """The numbers that one user sends, in the order of their effects, while the slot moves to and fro."""
    stop = threading.Event()
    sent: list[int] = []

    def write(writer: SlotWriter) -> None:
        while not stop.is_set() or len(sent) < 50:
            try:
                writer.send(USER, value(str(len(sent)))).get(10)
            except SlotUnavailable:
                stop.wait(0.01)
            else:
                sent.append(len(sent))

    with writing(broker, topic) as writer, consuming(Notes(topic=topic), broker):
        thread = threading.Thread(target=write, args=(writer,))
        thread.start()
        try:
            for _ in range(4):
                more = len(sent) + 5
                until(lambda more=more: len(sent) > more, "more records")  # type: ignore[misc]
                slot_moves.move_slots(broker.address, topic, "readers", {SLOT: other(topic)}, quiet)
        finally:
            stop.set()
            thread.join(30)
        until(lambda: all_read(topic, len(sent)), "the group to finish")
    assert len(effects()) == len(sent)
    return [int(text) for text in effects()]


def test_slot_moves_under_load_keep_each_users_order(broker: BrokerProcess, topic: Topic) -> None:
    numbers = move_under_load(broker, topic)
    assert numbers == sorted(numbers)


def test_without_waiting_for_the_group_a_slot_move_breaks_the_order(broker: BrokerProcess, topic: Topic) -> None:
    """The control: step 3 is left out, and the group is slow in one partition."""
    old = place(topic)
    away = threading.Event()
    away.set()

    def before(batch: Batch) -> None:
        if batch.partition == old and away.is_set():
            raise OperationalError("the database is unavailable for this partition")

    with writing(broker, topic) as writer:
        writer.send(USER, value("1")).get(10)
        with mock.patch.object(slot_moves, "_behind", lambda *_: []):
            slot_moves.move_slots(broker.address, topic, "readers", {SLOT: 1 - old}, quiet)
        until(lambda: can_send(writer, "2"), "the writer to know the new map")
        with consuming(Notes(before, topic), broker):
            until(lambda: effects() == ["2"], "the later request")
            away.clear()
            until(lambda: len(effects()) == 2, "both requests")
    assert effects() == ["2", "1"]


def can_send(writer: SlotWriter, text: str) -> bool:
    try:
        writer.send(USER, value(text)).get(10)
    except SlotUnavailable:
        return False
    return True
