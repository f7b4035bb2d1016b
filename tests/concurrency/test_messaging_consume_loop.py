"""The loop on a real broker: in a group, under kill -9, with a partition that cannot go on."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connection
from kafka import KafkaAdminClient

from seckill.stack.broker import BrokerProcess
from seckill.streams import loop, switches
from seckill.streams.loop import Loop
from seckill.streams.models import ConsumerOffset
from seckill.streams.records import Batch
from seckill.streams.working import Delivery
from seckill.topics import Topic
from tests.concurrency.streams_cast import Notes, effects, fill, make_topic
from tests.services import Services, until

COUNT = 60


@pytest.fixture(autouse=True)
def short_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "SESSION_MS", 2_000)


@contextmanager
def consuming(handler: Notes, broker: BrokerProcess, name: str = "a") -> Iterator[Loop]:
    """A consumer in a thread, until the end of the block."""
    running = Loop(handler, broker.address, name)

    def run() -> None:
        try:
            running.run()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield running
    finally:
        running.stop()
        thread.join(30)
        assert not thread.is_alive()


def everything() -> Counter[str]:
    return Counter(str(number) for number in range(COUNT))


def all_read(topic: Topic, count: int = COUNT) -> bool:
    """Whether the rows say that the group is through."""
    rows = ConsumerOffset.objects.filter(topic=topic.name).values_list("next_offset", flat=True)
    return sum(rows) == count


def test_a_group_reads_everything_once_and_tells_the_broker(broker: BrokerProcess) -> None:
    topic = make_topic(broker.address)
    fill(broker.address, topic, range(COUNT))
    with consuming(Notes(topic=topic), broker):
        until(lambda: all_read(topic), "the group to be through")
    assert Counter(effects()) == everything()
    assert committed(broker, topic) == {0: COUNT // 2, 1: COUNT // 2}


def committed(broker: BrokerProcess, topic: Topic) -> dict[int, int]:
    """What the broker knows of the group, by partition."""
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    told = admin.list_group_offsets(["readers"])["readers"]
    admin.close()
    return {partition.partition: at.offset for partition, at in told.items() if partition.topic == topic.name}


def test_a_claim_commits_its_position_to_the_broker_so_a_lost_commit_does_not_last(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(broker.address)
    fill(broker.address, topic, range(COUNT))
    with monkeypatch.context() as lossy:
        lossy.setattr("kafka.KafkaConsumer.commit_async", lambda self, offsets: None)
        with consuming(Notes(topic=topic), broker):
            until(lambda: all_read(topic), "the group to be through")
    assert committed(broker, topic) == {}, "all commits were lost"
    with consuming(Notes(topic=topic), broker):
        until(lambda: committed(broker, topic) == {0: COUNT // 2, 1: COUNT // 2}, "the claims to be committed")


def test_a_poll_that_ends_before_the_joining_does_is_not_the_end_of_it(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first assignment is made before the client knows the partitions: it has to join twice."""
    monkeypatch.setattr(loop, "POLL_MS", 1)
    topic = make_topic(broker.address)
    fill(broker.address, topic, range(COUNT))
    with consuming(Notes(topic=topic), broker):
        until(lambda: all_read(topic), "the group to be through")
    assert Counter(effects()) == everything()


def test_consumers_that_come_and_go_hand_over_cleanly(broker: BrokerProcess) -> None:
    topic = make_topic(broker.address)
    fill(broker.address, topic, range(COUNT // 2))
    with consuming(Notes(topic=topic), broker, "a"):
        until(lambda: all_read(topic, COUNT // 2), "the first half")
        with consuming(Notes(topic=topic), broker, "b"):
            until(lambda: max(ConsumerOffset.objects.values_list("epoch", flat=True)) > 1, "a hand-over")
            fill(broker.address, topic, range(COUNT // 2, COUNT))
            until(lambda: all_read(topic), "the second half")
    assert Counter(effects()) == everything()
    assert set(ConsumerOffset.objects.values_list("deaths", flat=True)) == {0}


def test_a_partition_that_cannot_go_on_does_not_hold_up_the_others_and_loses_nothing(broker: BrokerProcess) -> None:
    topic = make_topic(broker.address)
    fill(broker.address, topic, range(COUNT))
    away = threading.Event()
    away.set()

    def before(batch: Batch) -> None:
        if batch.partition == 0 and away.is_set():
            raise OperationalError("the database is away, for this partition")

    with consuming(Notes(before, topic), broker):
        until(lambda: all_read(topic, COUNT // 2), "partition 1")
        assert {int(text) % 2 for text in effects()} == {1}
        away.clear()
        until(lambda: all_read(topic), "partition 0")
    assert Counter(effects()) == everything()


def test_a_commit_whose_answer_is_lost_counts_once(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction is committed, but its process is told that the connection broke."""
    topic = make_topic(broker.address, partitions=1)
    fill(broker.address, topic, range(COUNT))
    lost = threading.Event()

    def point(name: str) -> None:
        if name == "readers.after_commit" and not lost.is_set():
            lost.set()
            raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr("seckill.streams.faults.point", point)
    with consuming(Notes(topic=topic), broker):
        until(lambda: lost.is_set() and all_read(topic), "the group to be through")
        fill(broker.address, topic, range(COUNT, COUNT + 2))
        until(lambda: all_read(topic, COUNT + 2), "what came later")
    assert effects() == [str(number) for number in range(COUNT + 2)]


class Few(Notes):
    most_records = 7


@pytest.mark.parametrize(("kind", "most"), [(Few, 7), (Notes, COUNT)])
def test_a_handler_says_how_many_records_it_works_on_at_once(
    broker: BrokerProcess, kind: type[Notes], most: int
) -> None:
    topic = make_topic(broker.address, partitions=1)
    fill(broker.address, topic, range(COUNT))
    notes = kind(topic=topic)
    with consuming(notes, broker):
        until(lambda: all_read(topic), "the group to be through")
    assert max(notes.sizes) == most
    assert Counter(effects()) == everything()


def test_a_group_that_is_switched_off_holds_still_and_catches_up(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SWITCH_S", 0.05)
    monkeypatch.setattr(switches, "OPTIONAL", ("readers",))
    topic = make_topic(broker.address)
    with consuming(Notes(topic=topic), broker) as running:
        fill(broker.address, topic, range(COUNT // 2))
        until(lambda: all_read(topic, COUNT // 2), "the first half")
        switches.switch("readers", on=False)
        until(lambda: running._is_off, "the consumer to see it")
        monkeypatch.setattr(loop, "SWITCH_S", 3600.0)  # whether it is on again, it sees sooner
        fill(broker.address, topic, range(COUNT // 2, COUNT))
        looked = running._look_at_switch_at
        until(lambda: running._look_at_switch_at > looked + 2 * loop.BACK_S, "some turns of the loop")
        assert len(effects()) == COUNT // 2
        switches.switch("readers", on=True)
        until(lambda: all_read(topic), "the group to be through")
    assert Counter(effects()) == everything()


def test_what_the_sale_cannot_do_without_is_not_switched_off() -> None:
    with pytest.raises(switches.NotOptional, match="inventory cannot be switched off"):
        switches.switch("inventory", on=False)


# ── kill -9 ──────────────────────────────────────────────────────────────────────────────────────


def live(services: Services, topic: Topic, delivery: Delivery, fault: str = "") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.concurrency.streams_life", topic.name, str(topic.partitions)]
    return subprocess.Popen([*command, delivery.value], env=services.environment(SECKILL_FAULT=fault))


@pytest.mark.parametrize(
    ("delivery", "fault", "expected"),
    [
        (Delivery.EXACTLY_ONCE, "readers.before_commit", {1}),
        (Delivery.EXACTLY_ONCE, "readers.after_commit", {1}),
        (Delivery.AT_MOST_ONCE, "readers.between", {0, 1}),
        (Delivery.AT_LEAST_ONCE, "readers.between", {1, 2}),
    ],
    ids=lambda value: getattr(value, "value", None) or str(value),
)
def test_what_each_way_of_delivery_makes_of_a_kill(
    broker: BrokerProcess, services: Services, delivery: Delivery, fault: str, expected: set[int]
) -> None:
    """How often each event had its effect: exactly once neither loses nor doubles, the others do what they say."""
    topic = make_topic(broker.address, partitions=1)
    fill(broker.address, topic, range(COUNT))
    assert live(services, topic, delivery, fault).wait(60) == -9
    survivor = live(services, topic, delivery)
    try:
        until(lambda: all_read(topic), "the group to be through")
        fill(broker.address, topic, [COUNT])
        until(lambda: str(COUNT) in effects(), "what came later")
    finally:
        survivor.terminate()
        assert survivor.wait(30) == 0
    counts = Counter(effects())
    assert {counts[str(number)] for number in range(COUNT + 1)} == expected
