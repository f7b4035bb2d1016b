"""Producers that send by slots, and the steps of moving a slot."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from unittest import mock

import pytest
from django.db import DatabaseError
from django.utils import timezone
from kafka.errors import KafkaTimeoutError
from kafka.future import Future

from seckill.messaging import kafka_cluster, slot_moves, slots
from seckill.messaging.models import ConsumerOffset, ProducerLease, SlotMap
from seckill.messaging.partitioners import slot_of
from seckill.messaging.slots import SlotUnavailable, SlotWriter
from seckill.messaging.topics import Topic
from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.messaging_cast import make_topic, value
from tests.concurrency.slots_cast import lease_of, quiet, writing
from tests.services import together, until

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


def read_to_the_end(broker: BrokerProcess, topic: Topic) -> None:
    """Set the group's offsets as if it had processed everything."""
    described = kafka_cluster.describe_cluster(broker.address, [topic])
    for partition, end in slot_moves.end_offsets(broker.address, topic, list(range(topic.partitions))).items():
        ConsumerOffset.objects.update_or_create(
            cluster_id=described.id, topic_id=described.topic_ids[topic.name], topic=topic.name, partition=partition,
            group="readers", defaults={"next_offset": end},
        )  # fmt: skip


# ── the writer ───────────────────────────────────────────────────────────────────────────────────


def test_a_key_goes_to_the_partition_of_its_slot_before_and_after_a_move(broker: BrokerProcess, topic: Topic) -> None:
    with writing(broker, topic) as writer:
        old, new = place(topic), other(topic)
        assert writer.send(USER, b"1").get(10).partition == old
        read_to_the_end(broker, topic)
        assert slot_moves.move_slots(broker.address, topic, "readers", {SLOT: new}, quiet) == 3
        until(lambda: sent_to(writer) == new, "the writer to know the new map")


def sent_to(writer: SlotWriter) -> int | None:
    try:
        return int(writer.send(USER, b"x").get(10).partition)
    except SlotUnavailable:
        return None


def test_a_slot_that_is_being_moved_rejects_records_while_others_accept_them(
    broker: BrokerProcess, topic: Topic
) -> None:
    with writing(broker, topic) as writer:
        writer.send(USER, b"1").get(10)
        slot_moves.mark_slots(broker.address, topic, {SLOT: other(topic)}, quiet)
        until(lambda: sent_to(writer) is None, "the writer to know the new map")
        neighbour = next(key for key in (b"n%d" % number for number in range(100)) if slot_of(key) != SLOT)
        assert writer.send(neighbour, b"1").get(10) is not None
        slot_moves.abort_move(topic)
        until(lambda: sent_to(writer) is not None, "the slot to be available again")


def test_a_writer_that_cannot_renew_its_lease_sends_nothing(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "LEASE_SECONDS", 2.5)
    with writing(broker, topic) as writer:
        assert sent_to(writer) is not None
        with mock.patch.object(SlotWriter, "_write_lease", side_effect=DatabaseError("unavailable")):
            until(lambda: sent_to(writer) is None, "the lease to expire")
        until(lambda: sent_to(writer) is not None, "the lease to be renewed")


def test_a_slot_is_unavailable_while_the_client_does_not_know_its_partition(
    broker: BrokerProcess, topic: Topic
) -> None:
    """After partitions were added, a writer may read the new slot map before its client knows the new partitions."""
    with writing(broker, topic) as writer:
        assert sent_to(writer) is not None
        partition_of = list(SlotMap.objects.get(topic=topic.name).partition_of)
        partition_of[SLOT] = topic.partitions
        SlotMap.objects.filter(topic=topic.name).update(version=2, partition_of=partition_of)
        until(lambda: sent_to(writer) is None, "the writer to know the new map")
        until(
            lambda: ProducerLease.objects.get(topic=topic.name).version == 2,
            "the writer to confirm that nothing is under way",
        )


class SlowProducer:
    """Keeps records under way until the test settles them."""

    def __init__(self) -> None:
        self.under_way: list[Future] = []

    def partitions_for(self, topic: str) -> set[int]:
        return {0, 1}

    def send(self, topic: str, **record: object) -> Future:
        self.under_way.append(Future())
        return self.under_way[-1]


@pytest.mark.parametrize("end", [lambda sent: sent.success(None), lambda sent: sent.failure(KafkaTimeoutError())])
def test_a_writer_confirms_a_new_slot_map_only_when_its_earlier_records_are_settled(
    broker: BrokerProcess, topic: Topic, end: Callable[[Future], None]
) -> None:
    producer = SlowProducer()
    writer = SlotWriter(topic, "writer", producer)
    try:
        writer.start()
        writer.send(USER, b"1")
        SlotMap.objects.filter(topic=topic.name).update(version=2)
        until(lambda: writer._known is not None and writer._known.table.version == 2, "the writer to read the slot map")
        wait_for_another_renewal(writer)
        assert known_version() == 1, "a record sent by version 1 is still under way"
        writer.send(USER, b"2")
        end(producer.under_way[0])
        until(lambda: known_version() == 2, "the writer to confirm")
    finally:
        writer.close()


def wait_for_another_renewal(writer: SlotWriter) -> None:
    before = ProducerLease.objects.get().expires_at
    until(lambda: ProducerLease.objects.get().expires_at > before, "another renewal")


def known_version() -> int:
    return ProducerLease.objects.get().version


def test_a_writer_that_closes_leaves_no_lease_behind(broker: BrokerProcess, topic: Topic) -> None:
    with writing(broker, topic) as writer:
        writer.send(USER, b"1").get(10)
        assert ProducerLease.objects.count() == 1
    assert ProducerLease.objects.count() == 0


# ── moving slots ────────────────────────────────────────────────────────────────────────────────────


def test_a_move_waits_for_writers_with_a_lease_and_not_for_expired_ones(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_moves, "WAIT_SECONDS_MAX", 0.5)
    read_to_the_end(broker, topic)
    lease = lease_of(topic, ends_in_s=5)
    with pytest.raises(slot_moves.SlotChangeRefused, match="may still write by the old slot map: slow"):
        slot_moves.move_slots(broker.address, topic, "readers", {SLOT: other(topic)}, quiet)
    lease.expires_at = timezone.now() - timedelta(seconds=slots.DELIVERY_SECONDS_MAX - 5)
    lease.save()
    with pytest.raises(slot_moves.SlotChangeRefused, match="may still write by the old slot map: slow"):
        slot_moves.finish_move(broker.address, topic, "readers", quiet)
    lease.expires_at = timezone.now() - timedelta(seconds=slots.DELIVERY_SECONDS_MAX + 1)
    lease.save()
    slot_moves.finish_move(broker.address, topic, "readers", quiet)


def test_a_move_waits_until_the_group_has_processed_the_old_partition(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_moves, "WAIT_SECONDS_MAX", 0.5)
    with writing(broker, topic) as writer:
        writer.send(USER, b"1").get(10)
        with pytest.raises(
            slot_moves.SlotChangeRefused, match=f"readers to process the old partitions: {place(topic)}: 1"
        ):
            slot_moves.move_slots(broker.address, topic, "readers", {SLOT: other(topic)}, quiet)
        assert SlotMap.objects.get(topic=topic.name).moving == {str(SLOT): other(topic)}, (
            "the move can be finished or aborted"
        )
        read_to_the_end(broker, topic)
        slot_moves.finish_move(broker.address, topic, "readers", quiet)
        assert SlotMap.objects.get(topic=topic.name).moving == {}


def test_of_two_concurrent_slot_changes_one_succeeds(broker: BrokerProcess, topic: Topic) -> None:
    read_to_the_end(broker, topic)
    row = slot_moves.load_slot_map(topic)
    works = [lambda: slot_moves._change("abort", row, {}, row.partition_of)] * 2
    results = together(works)
    assert sorted(type(result).__name__ for result in results) == ["SlotChangeRefused", "int"]


def test_a_move_to_a_missing_partition_is_refused(broker: BrokerProcess, topic: Topic) -> None:
    with pytest.raises(slot_moves.SlotChangeRefused, match="has no partition 7"):
        slot_moves.mark_slots(broker.address, topic, {SLOT: 7}, quiet)


def test_an_unexpected_exception_does_not_end_the_lease_thread(
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


def test_a_writer_suspended_between_check_and_send_sends_nothing(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(broker, topic) as writer:
        writer.send(USER, value("0")).get(10)
        known = writer._known
        assert known is not None
        after_sleep = known._replace(until=0.0)  # the lease has expired when the process wakes up
        monkeypatch.setattr(writer, "_begin_send", lambda: after_sleep)
        monkeypatch.setattr(slots.SlotView, "partition_for", lambda self, key: self.table.partition_of[SLOT])
        with pytest.raises(slots.NoLease):
            writer.send(USER, value("1"))
