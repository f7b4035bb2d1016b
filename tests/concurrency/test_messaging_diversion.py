"""A divert sends new users to the overflow topic and keeps the others in their queue, or it changes nothing."""

from __future__ import annotations

import pytest

from seckill.audit.trail import list_entries
from seckill.messaging import consume_loop, diversion, slot_moves
from seckill.messaging.models import SlotMap
from seckill.messaging.partitioners import slot_of
from seckill.messaging.topics import Topic
from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.diversion_cast import (
    ANN,
    BOB,
    GROUP,
    BothTopics,
    divert,
    has_new_map,
    make_topic_with_overflow,
    offsets_sum,
    overflow_of,
    rejoin,
    sent_to,
)
from tests.concurrency.messaging_cast import value
from tests.concurrency.slots_cast import lease_of, quiet, writing
from tests.concurrency.test_messaging_consume_loop import consuming
from tests.services import together, until


@pytest.fixture(autouse=True)
def short_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_loop, "SESSION_TIMEOUT_MS", 2_000)


@pytest.fixture
def topic(broker: BrokerProcess) -> Topic:
    return make_topic_with_overflow(broker)


# ── routing ───────────────────────────────────────────────────────────────────────────────


def test_users_with_queued_requests_stay_and_all_others_use_the_overflow_topic_until_the_rejoin(
    broker: BrokerProcess, topic: Topic
) -> None:
    with writing(broker, topic) as writer:
        assert sent_to(writer, ANN) == topic.name
        begun = divert(broker, topic)
        assert begun.users == 1
        until(lambda: has_new_map(writer, topic), "the writer to know the new map")
        for user, chosen in ((ANN, topic), (BOB, overflow_of(topic))):
            to = writer.partition_for(user)
            assert to is not None and sent_to(writer, user) == to[0] == chosen.name
        with consuming(BothTopics(topic), broker):
            rejoin(broker, topic)
        until(lambda: has_new_map(writer, topic), "the writer to know the new map")
        assert sent_to(writer, BOB) == topic.name
    assert [entry.verb for entry in list_entries(verb="backlog")] == [
        "backlog divert, producers pause", "backlog divert", "backlog rejoin, producers pause", "backlog rejoin",
    ]  # fmt: skip


def test_a_user_whose_requests_are_decided_is_not_pinned(broker: BrokerProcess, topic: Topic) -> None:
    with writing(broker, topic) as writer, consuming(BothTopics(topic), broker):
        sent_to(writer, ANN)
        until(lambda: offsets_sum(topic) == 1, "the group to process it")
        assert divert(broker, topic).users == 0


def test_during_a_divert_nothing_is_sent_and_an_abandoned_one_can_be_aborted(
    broker: BrokerProcess, topic: Topic
) -> None:
    with writing(broker, topic) as writer:
        sent_to(writer, ANN)
        SlotMap.objects.filter(topic=topic.name).update(transition=diversion.DIVERT, version=2)
        until(lambda: sent_to(writer, ANN) is None, "the writer to know the new map")
        with pytest.raises(slot_moves.SlotChangeRefused, match="a divert is under way"):
            slot_moves.mark_slots(broker.address, topic, {slot_of(ANN): 0}, quiet)
        diversion.abort_diversion(topic)
        until(lambda: sent_to(writer, ANN) == topic.name, "the writer to continue")
        with pytest.raises(slot_moves.SlotChangeRefused, match="neither a divert nor a rejoin"):
            diversion.abort_diversion(topic)


def test_an_interrupted_divert_can_be_repeated(broker: BrokerProcess, topic: Topic) -> None:
    SlotMap.objects.filter(topic=topic.name).update(transition=diversion.DIVERT, version=2)
    with pytest.raises(slot_moves.SlotChangeRefused, match="nothing is diverted"):
        rejoin(broker, topic)
    assert divert(broker, topic).users == 0
    assert slot_moves.load_slot_map(topic).transition == ""


# ── when it fails ──────────────────────────────────────────────────────────────────


def test_a_divert_is_undone_if_a_producer_does_not_confirm_in_time(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer that does not renew its lease delays the start; one that does not confirm undoes the divert."""
    monkeypatch.setattr(slot_moves, "WAIT_SECONDS_MAX", 0.5)
    lease_of(topic, ends_in_s=5)
    with pytest.raises(slot_moves.SlotChangeRefused, match="the leases of silent producers to end: slow"):
        divert(broker, topic)
    assert slot_moves.load_slot_map(topic).version == 1
    monkeypatch.setattr(diversion, "LEASE_REMAINING_SECONDS_MIN", 0.0)
    with pytest.raises(slot_moves.SlotChangeRefused, match="may still write by the old slot map: slow"):
        divert(broker, topic)
    row = slot_moves.load_slot_map(topic)
    assert (row.transition, row.diverted) == ("", 0)
    assert [entry.verb for entry in list_entries(verb="backlog")][-1] == "backlog abort divert"


def test_of_two_concurrent_diverts_one_succeeds(broker: BrokerProcess, topic: Topic) -> None:
    results = together([lambda: divert(broker, topic)] * 2)
    assert sum(isinstance(result, diversion.Diversion) for result in results) >= 1, results
    row = slot_moves.load_slot_map(topic)
    assert (row.transition, row.diverted > 0) == ("", True)
    assert all(isinstance(result, diversion.Diversion | slot_moves.SlotChangeRefused) for result in results), results


def test_a_divert_is_refused_twice_and_during_a_slot_move_and_a_rejoin_without_a_divert(
    broker: BrokerProcess, topic: Topic
) -> None:
    with pytest.raises(slot_moves.SlotChangeRefused, match="nothing is diverted"):
        rejoin(broker, topic)
    slot_moves.mark_slots(
        broker.address, topic, {slot_of(ANN): 1 - slot_moves.load_slot_map(topic).partition_of[slot_of(ANN)]}, quiet
    )
    with pytest.raises(slot_moves.SlotChangeRefused, match="slots are being moved"):
        divert(broker, topic)
    slot_moves.abort_move(topic)
    divert(broker, topic)
    with pytest.raises(slot_moves.SlotChangeRefused, match="already diverted"):
        divert(broker, topic)


def test_moving_a_slot_during_a_divert_waits_for_the_group_in_both_topics(
    broker: BrokerProcess, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_moves, "WAIT_SECONDS_MAX", 0.5)
    divert(broker, topic)
    with writing(broker, topic) as writer:
        sent_to(writer, BOB)
        old = slot_moves.load_slot_map(topic).partition_of[slot_of(BOB)]
        with pytest.raises(slot_moves.SlotChangeRefused, match=f"readers to process the old partitions: {old}: 1"):
            slot_moves.move_slots(broker.address, topic, GROUP, {slot_of(BOB): 1 - old}, quiet)
        with consuming(BothTopics(topic), broker):
            until(lambda: offsets_sum(topic) == 1, "the group to process it")
        slot_moves.finish_move(broker.address, topic, GROUP, quiet)
        until(lambda: has_new_map(writer, topic), "the writer to know the new map")
        at = writer.send(BOB, value("y")).get(10)
        assert (at.topic, at.partition) == (overflow_of(topic).name, 1 - old)
