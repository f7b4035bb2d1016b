"""A handler's priority topic is read first, without starving its other topics."""

from __future__ import annotations

import threading

import pytest

from seckill.messaging import consume_loop
from seckill.messaging.consume_loop import ConsumeLoop
from seckill.messaging.records import Batch
from seckill.messaging.topics import Topic
from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.diversion_cast import (
    BothTopics,
    make_topic_with_overflow,
    overflow_of,
)
from tests.concurrency.messaging_cast import Notes, effects, fill
from tests.concurrency.test_messaging_consume_loop import consuming
from tests.services import until


@pytest.fixture(autouse=True)
def short_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_loop, "SESSION_TIMEOUT_MS", 2_000)


@pytest.fixture
def topic(broker: BrokerProcess) -> Topic:
    return make_topic_with_overflow(broker)


def processed_before_the_last_of(
    broker: BrokerProcess, topic: Topic, fresh: Topic, handler: Notes, begun: threading.Event, go: threading.Event
) -> int:
    """One topic has 200 records when 60 arrive in the other. Returns how many of the 200 were processed before the last
    of the 60."""
    fill(broker.address, topic, range(200))
    with consuming(handler, broker):
        assert begun.wait(30)
        fill(broker.address, fresh, range(1000, 1060))
        go.set()
        until(lambda: len(effects()) == 260, "all records")
    numbers = [int(text) for text in effects()]
    return sum(
        1 for number in numbers[: max(at for at, number in enumerate(numbers) if number >= 1000)] if number < 1000
    )


@pytest.mark.parametrize("has_priority", [True, False])
def test_records_of_the_priority_topic_pass_the_backlog_of_the_other_topic(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch, has_priority: bool
) -> None:
    monkeypatch.setattr(consume_loop, "RECORDS_MAX", 5)
    begun, go = threading.Event(), threading.Event()

    def before(batch: Batch) -> None:
        begun.set()
        assert go.wait(30)

    handler = BothTopics(topic, before)
    if not has_priority:
        del handler.priority_topic
    before_the_last = processed_before_the_last_of(broker, topic, overflow_of(topic), handler, begun, go)
    assert (before_the_last < 100) is has_priority, before_the_last


def test_other_topics_progress_while_the_priority_topic_is_busy(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume_loop, "RECORDS_MAX", 5)
    begun, go = threading.Event(), threading.Event()

    def before(batch: Batch) -> None:
        begun.set()
        assert go.wait(30)

    fill(broker.address, topic, range(20))
    with consuming(BothTopics(topic, before), broker):
        assert begun.wait(30)
        fill(broker.address, overflow_of(topic), range(1000, 1300))
        go.set()
        until(lambda: len(effects()) == 320, "all records")
    numbers = [int(text) for text in effects()]
    assert max(at for at, number in enumerate(numbers) if number < 1000) < 200, "the old topic starved"


def test_a_handler_of_one_topic_has_no_priority_topic(broker: BrokerProcess, topic: Topic) -> None:
    assert ConsumeLoop(Notes(topic=topic), broker.address, "a")._priority_topic == ""
