"""The consume loop on a real broker: in a group, under kill -9, with a failing partition."""

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

from seckill.messaging import consume_loop, group_switches
from seckill.messaging.batch_worker import DeliveryGuarantee
from seckill.messaging.consume_loop import ConsumeLoop
from seckill.messaging.models import ConsumerOffset
from seckill.messaging.records import Batch
from seckill.messaging.topics import Topic
from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.messaging_cast import Notes, effects, fill, make_topic
from tests.services import Services, until

COUNT = 60


@pytest.fixture(autouse=True)
def short_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_loop, "SESSION_TIMEOUT_MS", 2_000)


@contextmanager
def consuming(handler: Notes, broker: BrokerProcess, name: str = "a") -> Iterator[ConsumeLoop]:
    """A consumer in a thread, until the end of the block."""
    running = ConsumeLoop(handler, broker.address, name)

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
    """Whether the group's rows have reached this count."""
    rows = ConsumerOffset.objects.filter(topic=topic.name).values_list("next_offset", flat=True)
    return sum(rows) == count


def test_a_group_processes_every_record_once_and_commits_to_the_broker(broker: BrokerProcess) -> None:
    topic = make_topic(broker.address)
    fill(broker.address, topic, range(COUNT))
    with consuming(Notes(topic=topic), broker):
        until(lambda: all_read(topic), "the group to finish")
    assert Counter(effects()) == everything()
    assert committed(broker, topic) == {0: COUNT // 2, 1: COUNT // 2}


def committed(broker: BrokerProcess, topic: Topic) -> dict[int, int]:
    """The offsets that the broker has for the group, by partition."""
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    listed = admin.list_group_offsets(["readers"])["readers"]
    admin.close()
    return {partition.partition: at.offset for partition, at in listed.items() if partition.topic == topic.name}


def test_a_claim_commits_its_offset_to_the_broker_which_repairs_a_lost_commit(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(broker.address)
    fill(broker.address, topic, range(COUNT))
    with monkeypatch.context() as lossy:
        lossy.setattr("kafka.KafkaConsumer.commit_async", lambda self, offsets: None)
        with consuming(Notes(topic=topic), broker):
            until(lambda: all_read(topic), "the group to finish")
    assert committed(broker, topic) == {}, "all commits were lost"
    with consuming(Notes(topic=topic), broker):
        until(lambda: committed(broker, topic) == {0: COUNT // 2, 1: COUNT // 2}, "the claims to be committed")


def test_a_poll_that_ends_before_the_join_does_not_cancel_it(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first assignment happens before the client knows the partitions, so it has to join twice."""
    monkeypatch.setattr(consume_loop, "POLL_MS_MAX", 1)
    topic = make_topic(broker.address)
    fill(broker.address, topic, range(COUNT))
    with consuming(Notes(topic=topic), broker):
        until(lambda: all_read(topic), "the group to finish")
    assert Counter(effects()) == everything()


def test_consumers_that_join_and_leave_hand_over_without_loss_or_repetition(broker: BrokerProcess) -> None:
    topic = make_topic(broker.address)
    fill(broker.address, topic, range(COUNT // 2))
    with consuming(Notes(topic=topic), broker, "a"):
        until(lambda: all_read(topic, COUNT // 2), "the first half")
        with consuming(Notes(topic=topic), broker, "b"):
            until(lambda: max(ConsumerOffset.objects.values_list("epoch", flat=True)) > 1, "a hand-over")
            fill(broker.address, topic, range(COUNT // 2, COUNT))
            until(lambda: all_read(topic), "the second half")
    assert Counter(effects()) == everything()
    assert set(ConsumerOffset.objects.values_list("crash_count", flat=True)) == {0}


def test_a_failing_partition_does_not_delay_the_others_and_loses_nothing(broker: BrokerProcess) -> None:
    topic = make_topic(broker.address)
    fill(broker.address, topic, range(COUNT))
    away = threading.Event()
    away.set()

    def before(batch: Batch) -> None:
        if batch.partition == 0 and away.is_set():
            raise OperationalError("the database is unavailable for this partition")

    with consuming(Notes(before, topic), broker):
        until(lambda: all_read(topic, COUNT // 2), "partition 1")
        assert {int(text) % 2 for text in effects()} == {1}
        away.clear()
        until(lambda: all_read(topic), "partition 0")
    assert Counter(effects()) == everything()


def test_a_commit_whose_answer_is_lost_has_one_effect(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction commits, but its process sees a broken connection."""
    topic = make_topic(broker.address, partitions=1)
    fill(broker.address, topic, range(COUNT))
    lost = threading.Event()

    def point(name: str) -> None:
        if name == "readers.after_commit" and not lost.is_set():
            lost.set()
            raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr("seckill.messaging.fault_points.trigger", point)
    with consuming(Notes(topic=topic), broker):
        until(lambda: lost.is_set() and all_read(topic), "the group to finish")
        fill(broker.address, topic, range(COUNT, COUNT + 2))
        until(lambda: all_read(topic, COUNT + 2), "the later records")
    assert effects() == [str(number) for number in range(COUNT + 2)]


class Few(Notes):
    batch_records_max = 7


@pytest.mark.parametrize(("kind", "most"), [(Few, 7), (Notes, COUNT)])
def test_a_handler_limits_the_records_of_a_batch(broker: BrokerProcess, kind: type[Notes], most: int) -> None:
    topic = make_topic(broker.address, partitions=1)
    fill(broker.address, topic, range(COUNT))
    notes = kind(topic=topic)
    with consuming(notes, broker):
        until(lambda: all_read(topic), "the group to finish")
    assert max(notes.sizes) == most
    assert Counter(effects()) == everything()


def test_a_group_that_is_switched_off_pauses_and_catches_up_later(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_switches, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(group_switches, "OPTIONAL_GROUPS", ("readers",))
    topic = make_topic(broker.address)
    with consuming(Notes(topic=topic), broker) as running:
        fill(broker.address, topic, range(COUNT // 2))
        until(lambda: all_read(topic, COUNT // 2), "the first half")
        group_switches.set_switch("readers", on=False)
        until(lambda: running._switch.is_off, "the consumer to see the switch")
        monkeypatch.setattr(group_switches, "CHECK_SECONDS", 3600.0)  # while off it must check more often than this
        fill(broker.address, topic, range(COUNT // 2, COUNT))
        checked_at = running._switch.checked_at
        until(
            lambda: running._switch.checked_at > checked_at + 2 * group_switches.CHECK_SECONDS_WHILE_OFF,
            "some turns of the loop",
        )
        assert len(effects()) == COUNT // 2
        group_switches.set_switch("readers", on=True)
        until(lambda: all_read(topic), "the group to finish")
    assert Counter(effects()) == everything()


def test_a_group_that_the_sale_needs_cannot_be_switched_off() -> None:
    with pytest.raises(group_switches.GroupNotOptional, match="inventory cannot be switched off"):
        group_switches.set_switch("inventory", on=False)


# ── kill -9 ──────────────────────────────────────────────────────────────────────────────────────


def live(services: Services, topic: Topic, delivery: DeliveryGuarantee, fault: str = "") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.concurrency.messaging_life", topic.name, str(topic.partitions)]
    return subprocess.Popen([*command, delivery.value], env=services.environment(SECKILL_FAULT=fault))


@pytest.mark.parametrize(
    ("delivery", "fault", "expected"),
    [
        (DeliveryGuarantee.EXACTLY_ONCE, "readers.before_commit", {1}),
        (DeliveryGuarantee.EXACTLY_ONCE, "readers.after_commit", {1}),
        (DeliveryGuarantee.AT_MOST_ONCE, "readers.between", {0, 1}),
        (DeliveryGuarantee.AT_LEAST_ONCE, "readers.between", {1, 2}),
    ],
    ids=lambda value: getattr(value, "value", None) or str(value),
)
def test_what_a_kill_loses_or_repeats_under_each_delivery_guarantee(
    broker: BrokerProcess, services: Services, delivery: DeliveryGuarantee, fault: str, expected: set[int]
) -> None:
    """How often each event had its effect. The two weaker guarantees are the control for exactly once."""
    topic = make_topic(broker.address, partitions=1)
    fill(broker.address, topic, range(COUNT))
    assert live(services, topic, delivery, fault).wait(60) == -9
    survivor = live(services, topic, delivery)
    try:
        until(lambda: all_read(topic), "the group to finish")
        fill(broker.address, topic, [COUNT])
        until(lambda: str(COUNT) in effects(), "the later records")
    finally:
        survivor.terminate()
        assert survivor.wait(30) == 0
    counts = Counter(effects())
    assert {counts[str(number)] for number in range(COUNT + 1)} == expected
