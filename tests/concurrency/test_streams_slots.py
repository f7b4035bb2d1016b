"""Slots moved while producers write: nobody overtakes himself; and without the steps he does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from unittest import mock
from uuid import uuid4

import pytest
from django.db import DatabaseError, OperationalError
from django.utils import timezone
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError
from kafka.future import Future

from seckill.stack.broker import BrokerProcess
from seckill.streams import cluster, moving, slots
from seckill.streams.models import ConsumerOffset, ProducerLease, SlotMap
from seckill.streams.partitioners import slot_of
from seckill.streams.records import Batch
from seckill.streams.slots import NotNow, SlotWriter
from seckill.topics import Topic
from tests.concurrency.streams_cast import Notes, effects, make_topic, value
from tests.concurrency.test_streams_loop import all_read, consuming
from tests.services import together, until

USER = b"user"
SLOT = slot_of(USER)


def quiet(text: str) -> None:
    pass


@pytest.fixture
def topic(broker: BrokerProcess) -> Topic:
    made = make_topic(broker.address)
    slots.ensure(made, made.partitions)
    return made


@contextmanager
def writing(broker: BrokerProcess, topic: Topic, name: str = "writer") -> Iterator[SlotWriter]:
    producer = KafkaProducer(
        bootstrap_servers=broker.address, acks="all", delivery_timeout_ms=10_000, request_timeout_ms=5_000
    )
    writer = SlotWriter(topic, name, producer)
    try:
        yield writer
    finally:
        writer.close()
        producer.close()


def place(topic: Topic) -> int:
    return int(SlotMap.objects.get(topic=topic.name).partition_of[SLOT])


def other(topic: Topic) -> int:
    return 1 - place(topic)


def read_to_the_end(broker: BrokerProcess, topic: Topic) -> None:
    """As a group does that is through."""
    described = cluster.describe(broker.address, [topic])
    for partition, end in moving.ends_of(broker.address, topic, list(range(topic.partitions))).items():
        ConsumerOffset.objects.update_or_create(
            cluster_id=described.id, topic_id=described.topic_ids[topic.name], topic=topic.name, partition=partition,
            group="readers", defaults={"next_offset": end},
        )  # fmt: skip


# ── the writer ───────────────────────────────────────────────────────────────────────────────────


def test_a_key_goes_where_its_slot_is_and_after_a_move_to_the_other_place(broker: BrokerProcess, topic: Topic) -> None:
    with writing(broker, topic) as writer:
        old, new = place(topic), other(topic)
        assert writer.send(USER, b"1").get(10).partition == old
        read_to_the_end(broker, topic)
        assert moving.move(broker.address, topic, "readers", {SLOT: new}, quiet) == 3
        until(lambda: sent_to(writer) == new, "the writer to know")


def sent_to(writer: SlotWriter) -> int | None:
    try:
        return int(writer.send(USER, b"x").get(10).partition)
    except NotNow:
        return None


def test_a_slot_that_is_being_moved_takes_nothing_and_its_neighbour_does(broker: BrokerProcess, topic: Topic) -> None:
    with writing(broker, topic) as writer:
        writer.send(USER, b"1").get(10)
        moving.mark(broker.address, topic, {SLOT: other(topic)}, quiet)
        until(lambda: sent_to(writer) is None, "the writer to know")
        neighbour = next(key for key in (b"n%d" % number for number in range(100)) if slot_of(key) != SLOT)
        assert writer.send(neighbour, b"1").get(10) is not None
        moving.abort(topic)
        until(lambda: sent_to(writer) is not None, "the slot to be open again")


def test_a_writer_that_cannot_renew_its_lease_sends_nothing(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "LEASE_S", 2.5)
    with writing(broker, topic) as writer:
        assert sent_to(writer) is not None
        with mock.patch.object(SlotWriter, "_lease", side_effect=DatabaseError("away")):
            until(lambda: sent_to(writer) is None, "the lease to end")
        until(lambda: sent_to(writer) is not None, "the lease to be renewed")


def test_a_partition_that_the_client_does_not_know_yet_is_for_later(broker: BrokerProcess, topic: Topic) -> None:
    """Whoever was away while partitions were added learns the new table before his client learns the new partitions."""
    with writing(broker, topic) as writer:
        assert sent_to(writer) is not None
        partition_of = list(SlotMap.objects.get(topic=topic.name).partition_of)
        partition_of[SLOT] = topic.partitions
        SlotMap.objects.filter(topic=topic.name).update(version=2, partition_of=partition_of)
        until(lambda: sent_to(writer) is None, "the writer to know")
        until(lambda: ProducerLease.objects.get(topic=topic.name).version == 2, "that nothing is under way")


class SlowProducer:
    """What it is given stays under way until the test says otherwise."""

    def __init__(self) -> None:
        self.under_way: list[Future] = []

    def partitions_for(self, topic: str) -> set[int]:
        return {0, 1}

    def send(self, topic: str, **record: object) -> Future:
        self.under_way.append(Future())
        return self.under_way[-1]


@pytest.mark.parametrize("end", [lambda sent: sent.success(None), lambda sent: sent.failure(KafkaTimeoutError())])
def test_a_writer_says_that_it_knows_only_when_what_it_has_sent_before_is_settled(
    broker: BrokerProcess, topic: Topic, end: Callable[[Future], None]
) -> None:
    producer = SlowProducer()
    writer = SlotWriter(topic, "writer", producer)
    try:
        writer.send(USER, b"1")
        SlotMap.objects.filter(topic=topic.name).update(version=2)
        until(lambda: writer._known is not None and writer._known.table.version == 2, "the writer to look")
        lease_after_another_look(writer)
        assert known_version() == 1, "something of version 1 is still under way"
        writer.send(USER, b"2")
        end(producer.under_way[0])
        until(lambda: known_version() == 2, "the writer to say so")
    finally:
        writer.close()


def lease_after_another_look(writer: SlotWriter) -> None:
    before = ProducerLease.objects.get().expires_at
    until(lambda: ProducerLease.objects.get().expires_at > before, "another look")


def known_version() -> int:
    return ProducerLease.objects.get().version


def test_a_writer_that_closes_leaves_no_lease_behind(broker: BrokerProcess, topic: Topic) -> None:
    with writing(broker, topic) as writer:
        writer.send(USER, b"1").get(10)
        assert ProducerLease.objects.count() == 1
    assert ProducerLease.objects.count() == 0


# ── the mover ────────────────────────────────────────────────────────────────────────────────────


def test_it_waits_for_a_writer_that_does_not_know_yet_and_not_for_one_whose_lease_is_long_over(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "PATIENCE_S", 0.5)
    read_to_the_end(broker, topic)
    lease = lease_of(topic, ends_in_s=5)
    with pytest.raises(moving.Refused, match="may still write by the old table: slow"):
        moving.move(broker.address, topic, "readers", {SLOT: other(topic)}, quiet)
    lease.expires_at = timezone.now() - timedelta(seconds=slots.MOST_DELIVERY_S - 5)
    lease.save()
    with pytest.raises(moving.Refused, match="may still write by the old table: slow"):
        moving.finish(broker.address, topic, "readers", quiet)
    lease.expires_at = timezone.now() - timedelta(seconds=slots.MOST_DELIVERY_S + 1)
    lease.save()
    moving.finish(broker.address, topic, "readers", quiet)


def lease_of(topic: Topic, ends_in_s: float) -> ProducerLease:
    return ProducerLease.objects.create(
        id=uuid4(), topic=topic.name, name="slow", version=1, partitions=2,
        expires_at=timezone.now() + timedelta(seconds=ends_in_s),
    )  # fmt: skip


def test_it_waits_until_the_group_has_passed_what_stands_in_the_old_place(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "PATIENCE_S", 0.5)
    with writing(broker, topic) as writer:
        writer.send(USER, b"1").get(10)
        with pytest.raises(moving.Refused, match=f"readers, which has yet to pass: {place(topic)}: 1"):
            moving.move(broker.address, topic, "readers", {SLOT: other(topic)}, quiet)
        assert SlotMap.objects.get(topic=topic.name).moving == {str(SLOT): other(topic)}, "to be finished or aborted"
        read_to_the_end(broker, topic)
        moving.finish(broker.address, topic, "readers", quiet)
        assert SlotMap.objects.get(topic=topic.name).moving == {}


def test_of_two_operators_at_once_one_succeeds(broker: BrokerProcess, topic: Topic) -> None:
    read_to_the_end(broker, topic)
    row = moving.table(topic)
    works = [lambda: moving._change("abort", row, {}, row.partition_of)] * 2
    results = together(works)
    assert sorted(type(result).__name__ for result in results) == ["Refused", "int"]


def test_nothing_moves_to_a_partition_that_is_not_there(broker: BrokerProcess, topic: Topic) -> None:
    with pytest.raises(moving.Refused, match="has no partition 7"):
        moving.mark(broker.address, topic, {SLOT: 7}, quiet)


# ── all of it, under load ────────────────────────────────────────────────────────────────────────


def move_under_load(broker: BrokerProcess, topic: Topic) -> list[int]:
    """One user's numbers in the order of their effects, while his slot goes to and fro."""
    stop = threading.Event()
    sent: list[int] = []

    def write(writer: SlotWriter) -> None:
        while not stop.is_set() or len(sent) < 50:
            try:
                writer.send(USER, value(str(len(sent)))).get(10)
            except NotNow:
                stop.wait(0.01)
            else:
                sent.append(len(sent))

    with writing(broker, topic) as writer, consuming(Notes(topic=topic), broker):
        thread = threading.Thread(target=write, args=(writer,))
        thread.start()
        try:
            for _ in range(4):
                more = len(sent) + 5
                until(lambda more=more: len(sent) > more, "some more")  # type: ignore[misc]
                moving.move(broker.address, topic, "readers", {SLOT: other(topic)}, quiet)
        finally:
            stop.set()
            thread.join(30)
        until(lambda: all_read(topic, len(sent)), "the group to be through")
    assert len(effects()) == len(sent)
    return [int(text) for text in effects()]


def test_a_user_whose_slot_is_moved_to_and_fro_under_load_never_overtakes_himself(
    broker: BrokerProcess, topic: Topic
) -> None:
    told = move_under_load(broker, topic)
    assert told == sorted(told)


def test_without_waiting_for_the_group_he_does(broker: BrokerProcess, topic: Topic) -> None:
    """Step 3 left out, with a group that is slow in one partition."""
    old = place(topic)
    away = threading.Event()
    away.set()

    def before(batch: Batch) -> None:
        if batch.partition == old and away.is_set():
            raise OperationalError("the database is away, for this partition")

    with writing(broker, topic) as writer:
        writer.send(USER, value("1")).get(10)
        with mock.patch.object(moving, "_behind", lambda *_: []):
            moving.move(broker.address, topic, "readers", {SLOT: 1 - old}, quiet)
        until(lambda: sent_to_with(writer, "2"), "the writer to know")
        with consuming(Notes(before, topic), broker):
            until(lambda: effects() == ["2"], "the one that came later")
            away.clear()
            until(lambda: len(effects()) == 2, "both")
    assert effects() == ["2", "1"]


def sent_to_with(writer: SlotWriter, text: str) -> bool:
    try:
        writer.send(USER, value(text)).get(10)
    except NotNow:
        return False
    return True


def test_a_fault_that_nobody_foresaw_does_not_end_the_thread_that_keeps_the_lease(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    renew, faults = SlotWriter._renew, [ZeroDivisionError("first"), TypeError("second")]

    def faulty(writer: SlotWriter) -> None:
        if faults:
            raise faults.pop(0)
        renew(writer)

    monkeypatch.setattr(SlotWriter, "_renew", faulty)
    with writing(broker, topic) as writer:
        assert writer.send(USER, value("0")).get(10).partition == place(topic)
    assert faults == []


def test_a_writer_that_slept_between_looking_and_sending_sends_nothing(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(broker, topic) as writer:
        writer.send(USER, value("0")).get(10)
        known = writer._known
        assert known is not None
        asleep = known._replace(until=0.0)  # as it is when the process wakes up, and `place` was asked before
        monkeypatch.setattr(writer, "_enter", lambda: asleep)
        monkeypatch.setattr(slots.Known, "place", lambda self, key: self.table.partition_of[SLOT])
        with pytest.raises(slots.NoLease):
            writer.send(USER, value("1"))
