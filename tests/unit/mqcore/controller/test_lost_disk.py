"""A broker that comes back with an empty folder must not lead what others still have."""

from __future__ import annotations

from mqcore.controller.cluster_commands import Registered, UnregisterBroker
from mqcore.controller.facts import NO_LEADER
from mqcore.identity import BrokerId
from mqcore.wire.errors import ErrorCode, Refusal
from tests.unit.mqcore.controller.brokers import Brokers


def with_one_in_sync() -> Brokers:
    """Broker 1 was the last one in sync when it fell silent; the others are active."""
    brokers = Brokers(3)
    brokers.topic_on((1, 2, 3))
    for other in (2, 3):
        brokers.start(other)
        brokers.unfence(other)
    brokers.fall_silent(1)
    assert brokers.leader_and_isr() == (NO_LEADER, (1,))
    return brokers


def test_a_broker_that_has_lost_its_disk_does_not_lead_what_only_it_had_in_sync() -> None:
    """S13: it would lead an empty log, and the others would cut theirs."""
    brokers = with_one_in_sync()
    assert isinstance(brokers.ask(brokers.registration(1, folder=77, starts=1, chance=9)), Registered)
    assert brokers.leader_and_isr() == (2, (2,))
    brokers.unfence(1)
    assert brokers.leader_and_isr() == (2, (2,))


def test_with_its_disk_it_leads_again() -> None:
    brokers = with_one_in_sync()
    brokers.start(1)
    brokers.unfence(1)
    assert brokers.leader_and_isr() == (1, (1,))


def test_a_broker_that_has_lost_its_disk_waits_until_another_broker_can_replace_it() -> None:
    brokers = with_one_in_sync()
    brokers.fall_silent(2, 3)
    empty = brokers.registration(1, folder=77, starts=1, chance=9)
    refusal = brokers.ask(empty)
    assert isinstance(refusal, Refusal) and refusal.error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert "orders-0" in str(refusal.message) and "[2, 3]" in str(refusal.message)
    brokers.unfence(3)
    assert isinstance(brokers.ask(empty), Registered)
    assert brokers.leader_and_isr() == (3, (3,))


def test_a_broker_that_has_lost_its_disk_leads_what_no_other_broker_could_have() -> None:
    brokers = Brokers(2)
    brokers.topic_on((1,), name="alone")
    brokers.topic_on((1, 2), name="left")
    brokers.fall_silent(2)
    brokers.ask(UnregisterBroker(BrokerId(2)))
    brokers.fall_silent(1)
    assert isinstance(brokers.ask(brokers.registration(1, folder=77, starts=1, chance=9)), Registered)
    brokers.unfence(1)
    assert [brokers.partition(name=name).leader for name in ("alone", "left")] == [1, 1]
