"""Diverts while users send and a group is far behind keep each user's order; without pinned users they do not."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest
from django.db import OperationalError

from seckill.messaging import consume_loop, diversion, slot_moves
from seckill.messaging.models import Divert
from seckill.messaging.records import Batch
from seckill.messaging.slots import SlotWriter
from seckill.messaging.topics import Topic
from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.diversion_cast import (
    ANN,
    BothTopics,
    divert,
    has_new_map,
    make_topic_with_overflow,
    offsets_sum,
    overflow_of,
    rejoin,
    sent_to,
)
from tests.concurrency.messaging_cast import effects
from tests.concurrency.slots_cast import writing
from tests.concurrency.test_messaging_consume_loop import consuming
from tests.services import until


@pytest.fixture(autouse=True)
def short_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_loop, "SESSION_TIMEOUT_MS", 2_000)


@pytest.fixture
def topic(broker: BrokerProcess) -> Topic:
    return make_topic_with_overflow(broker)


USERS = [f"user{number}".encode() for number in range(6)]


@contextmanager
def all_users_writing(writer: SlotWriter, users: list[bytes]) -> Iterator[dict[bytes, int]]:
    """One thread per user sends as fast as the broker acknowledges. Yields the number of records of each user."""
    stop = threading.Event()
    sent: dict[bytes, int] = defaultdict(int)

    def write(user: bytes) -> None:
        while not stop.is_set():
            if sent_to(writer, user, f"{user.decode()} {sent[user]}") is None:
                stop.wait(0.01)
            else:
                sent[user] += 1

    threads = [threading.Thread(target=write, args=(user,)) for user in users]
    for thread in threads:
        thread.start()
    try:
        yield sent
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)


def wait_for_more(sent: dict[bytes, int]) -> None:
    more = sum(sent.values()) + 20
    until(lambda: sum(sent.values()) > more, "more records")


def divert_under_load(broker: BrokerProcess, topic: Topic) -> dict[str, list[int]]:
    """Each user's numbers in the order of their effects, through two diverts. The old topic is slow: its batches
    fail once."""
    tries: dict[int, int] = defaultdict(int)

    def slow(batch: Batch) -> None:
        tries[batch.records[0].offset] += 1
        if batch.topic == topic.name and tries[batch.records[0].offset] == 1:
            raise OperationalError("the database is unavailable for this batch")

    with writing(broker, topic) as writer, consuming(BothTopics(topic, slow), broker):
        with all_users_writing(writer, USERS[:3]) as sent:
            wait_for_more(sent)
            divert(broker, topic)
            with all_users_writing(writer, USERS[3:]) as later:
                wait_for_more(later)
                for verb in (rejoin, divert, rejoin):
                    wait_for_more(sent)
                    verb(broker, topic)
        sent |= later
        until(lambda: offsets_sum(topic) == sum(sent.values()), "the group to finish")
    assert sum(slot_moves.end_offsets(broker.address, overflow_of(topic), range(2)).values()) > 0, (
        "nothing was diverted"
    )
    numbers_of: dict[str, list[int]] = defaultdict(list)
    for text in effects():
        user, number = text.split()
        numbers_of[user].append(int(number))
    assert {user: len(numbers) for user, numbers in numbers_of.items()} == {
        key.decode(): n for key, n in sent.items() if n
    }
    return numbers_of


def test_diverts_and_rejoins_under_load_keep_each_users_order(broker: BrokerProcess, topic: Topic) -> None:
    numbers_of = divert_under_load(broker, topic)
    assert all(numbers == sorted(numbers) for numbers in numbers_of.values())
    assert Divert.objects.count() == 2


def test_without_pinned_users_a_divert_breaks_the_order(broker: BrokerProcess, topic: Topic) -> None:
    with writing(broker, topic) as writer:
        sent_to(writer, ANN, "1")
        with mock.patch.object(diversion, "collect_user_marks", lambda *_: set()):
            divert(broker, topic)
        until(lambda: has_new_map(writer, topic), "the writer to know the new map")
        assert sent_to(writer, ANN, "2") == overflow_of(topic).name
        is_available = threading.Event()

        def before(batch: Batch) -> None:
            if batch.topic == topic.name and not is_available.is_set():
                raise OperationalError("the database is unavailable for the old topic")

        with consuming(BothTopics(topic, before), broker):
            until(lambda: effects() == ["2"], "the later request")
            is_available.set()
            until(lambda: len(effects()) == 2, "both requests")
    assert effects() == ["2", "1"]
