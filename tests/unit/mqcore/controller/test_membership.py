"""Brokers join, fall silent, come back and leave; each life of a broker has an epoch of its own."""

from __future__ import annotations

import pytest

from mqcore.controller.cluster_commands import (
    Activate,
    BrokerDisconnected,
    HeartbeatAnswer,
    Registered,
    UnregisterBroker,
)
from mqcore.controller.commands import ControllerAnswer
from mqcore.controller.facts import NO_LEADER, BrokerRegistered, PartitionChanged
from mqcore.identity import BrokerId
from mqcore.wire.errors import ErrorCode, Refusal
from tests.unit.mqcore.controller.brokers import EPOCH, Brokers


def error_of(answer: ControllerAnswer) -> ErrorCode:
    return answer.error if isinstance(answer, Refusal) else ErrorCode.NONE


# Registration


def test_a_new_broker_is_fenced_and_its_epoch_is_the_offset_of_its_registration() -> None:
    brokers = Brokers(0)
    epoch = brokers.start(1)
    assert epoch == 100 and isinstance(brokers.facts[0], BrokerRegistered)
    assert brokers.image.brokers[BrokerId(1)].fenced and not brokers.image.is_active(BrokerId(1))


def test_a_registration_whose_answer_was_lost_gets_the_same_epoch_again() -> None:
    brokers = Brokers(0)
    epoch = brokers.start(1)
    facts = len(brokers.facts)
    assert brokers.ask(brokers.registration(1)) == Registered(epoch)
    assert len(brokers.facts) == facts


def test_a_later_start_of_the_same_folder_is_accepted_at_once_and_fences_the_earlier_one() -> None:
    """S14: within its session, so that leadership moves although nobody noticed that the broker was gone."""
    brokers = Brokers(3)
    brokers.topic_on((1, 2))
    before = brokers.epoch_of(1)
    after = brokers.start(1)
    assert after > before and brokers.leader_and_isr() == (2, (2,))
    moved, registered = brokers.facts[-2:]
    assert isinstance(moved, PartitionChanged) and isinstance(registered, BrokerRegistered)
    assert after == 100 + len(brokers.facts) - 1, "the epoch is the offset of the registration, not of its batch"
    assert error_of(brokers.heartbeat(1, epoch=before)) is ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("is_fenced", [False, True])
def test_a_late_registration_of_an_earlier_start_does_not_take_the_broker_id(is_fenced: bool) -> None:
    """Trap 12: the message of a dead process arrives after its successor has registered."""
    brokers = Brokers(2)
    late = brokers.registration(1)
    epoch = brokers.start(1)
    if not is_fenced:
        brokers.unfence(1)
    else:
        brokers.pass_time(60_000)
    assert error_of(brokers.ask(late)) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert brokers.epoch_of(1) == epoch


def test_another_folder_with_the_same_broker_id_has_to_wait_until_the_session_ends() -> None:
    brokers = Brokers(2)
    stranger = brokers.registration(1, folder=77, starts=1, chance=9)
    assert error_of(brokers.ask(stranger)) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    brokers.fall_silent(1)
    assert isinstance(brokers.ask(stranger), Registered)


def test_a_broker_that_is_unregistered_and_registers_again_gets_a_larger_epoch() -> None:
    """Trap 12: a counter for each broker would begin again, and an old message would pass for a new one."""
    brokers = Brokers(3)
    before = brokers.epoch_of(3)
    assert brokers.ask(UnregisterBroker(BrokerId(3))) == ()
    assert error_of(brokers.heartbeat(3, epoch=before)) is ErrorCode.STALE_BROKER_EPOCH
    assert brokers.start(3) > before


def test_an_unknown_broker_cannot_be_unregistered() -> None:
    assert error_of(Brokers(1).ask(UnregisterBroker(BrokerId(9)))) is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_an_unregistered_broker_leads_nothing() -> None:
    brokers = Brokers(3)
    brokers.topic_on((1, 2), (3, 1))
    brokers.ask(UnregisterBroker(BrokerId(1)))
    assert brokers.leader_and_isr(0) == (2, (2,)) and brokers.leader_and_isr(1) == (3, (3,))


# Heartbeats


def test_a_broker_is_unfenced_when_it_has_applied_its_own_registration() -> None:
    brokers = Brokers(0)
    epoch = brokers.start(1)
    assert brokers.heartbeat(1, applied=epoch) == HeartbeatAnswer(False, True, False)
    assert brokers.heartbeat(1, applied=epoch + 1, fence=True) == HeartbeatAnswer(True, True, False)
    assert brokers.heartbeat(1, applied=epoch + 1) == HeartbeatAnswer(True, False, False)
    assert brokers.image.is_active(BrokerId(1))


def test_an_unfenced_broker_that_wants_to_be_fenced_is_fenced() -> None:
    brokers = Brokers(2)
    brokers.topic_on((1, 2))
    assert brokers.heartbeat(1, fence=True) == HeartbeatAnswer(True, True, False)
    assert brokers.leader_and_isr() == (2, (2,))


def test_a_heartbeat_of_an_unknown_broker_or_of_another_epoch_is_refused() -> None:
    brokers = Brokers(1)
    assert error_of(brokers.heartbeat(9, epoch=1)) is ErrorCode.STALE_BROKER_EPOCH
    assert error_of(brokers.heartbeat(1, epoch=brokers.epoch_of(1) + 1)) is ErrorCode.STALE_BROKER_EPOCH


def test_a_heartbeat_of_an_earlier_life_does_not_prolong_the_session() -> None:
    brokers = Brokers(2)
    before = brokers.epoch_of(1)
    brokers.start(1)
    brokers.unfence(1)
    brokers.pass_time(4_000)
    brokers.heartbeat(1, epoch=before)
    brokers.pass_time(1_000)
    brokers.run_ticks()
    assert brokers.image.brokers[BrokerId(1)].fenced


# Sessions


def test_a_silent_broker_is_fenced_and_its_partitions_get_other_leaders() -> None:
    brokers = Brokers(3)
    brokers.topic_on((1, 2, 3), (2, 1, 3))
    brokers.fall_silent(1)
    assert brokers.leader_and_isr(0) == (2, (2, 3)) and brokers.leader_and_isr(1) == (2, (2, 3))
    assert [broker for broker, each in brokers.image.brokers.items() if each.fenced] == [1]


def test_heartbeats_keep_a_broker_unfenced() -> None:
    brokers = Brokers(2)
    brokers.fall_silent()
    assert all(map(brokers.image.is_active, brokers.image.brokers))


def test_one_silent_broker_is_fenced_at_a_time() -> None:
    brokers = Brokers(3)
    brokers.pass_time(10_000)
    brokers.tick()
    assert sum(each.fenced for each in brokers.image.brokers.values()) == 1
    assert brokers.machine.deadline() is not None
    brokers.run_ticks()
    assert all(each.fenced for each in brokers.image.brokers.values())


def test_nothing_happens_when_the_session_of_a_fenced_broker_ends() -> None:
    brokers = Brokers(0)
    brokers.start(1)
    facts = len(brokers.facts)
    brokers.pass_time(4_400)
    brokers.run_ticks()
    brokers.pass_time(400_000)
    brokers.run_ticks()
    assert len(brokers.facts) == facts and brokers.machine.deadline() is None


def test_a_new_controller_gives_every_broker_a_full_session() -> None:
    brokers = Brokers(2)
    brokers.pass_time(60_000)
    brokers.ask(Activate(EPOCH + 1, brokers.machine.sessions.next_offset))
    brokers.pass_time(4_000)
    brokers.run_ticks()
    assert all(map(brokers.image.is_active, brokers.image.brokers))
    brokers.pass_time(1_000)
    brokers.run_ticks()
    assert not any(map(brokers.image.is_active, brokers.image.brokers))


def test_a_broken_connection_ends_the_session_soon_unless_the_broker_comes_back() -> None:
    brokers = Brokers(2)
    for broker in (1, 2):
        brokers.ask(BrokerDisconnected(BrokerId(broker), brokers.epoch_of(broker)))
    brokers.pass_time(400)
    brokers.heartbeat(2)
    brokers.pass_time(200)
    brokers.run_ticks()
    assert not brokers.image.is_active(BrokerId(1)) and brokers.image.is_active(BrokerId(2))


def test_the_connection_of_an_earlier_life_does_not_end_the_session() -> None:
    brokers = Brokers(2)
    before = brokers.epoch_of(1)
    brokers.start(1)
    brokers.unfence(1)
    brokers.ask(BrokerDisconnected(BrokerId(1), before))
    brokers.pass_time(1_000)
    brokers.run_ticks()
    assert brokers.image.is_active(BrokerId(1))


# Controlled shutdown


def test_a_broker_that_wants_to_stop_hands_over_first_and_stops_when_the_others_know() -> None:
    brokers = Brokers(3)
    brokers.topic_on((1, 2, 3))
    assert brokers.heartbeat(1, stop=True) == HeartbeatAnswer(True, False, False)
    assert brokers.leader_and_isr() == (2, (2, 3))
    brokers.heartbeat(2)
    assert brokers.heartbeat(1, stop=True) == HeartbeatAnswer(True, False, False), "broker 3 does not know yet"
    brokers.heartbeat(3)
    assert brokers.heartbeat(1, stop=True) == HeartbeatAnswer(True, True, True)
    assert brokers.image.brokers[BrokerId(1)].fenced


def test_a_broker_in_controlled_shutdown_gets_no_leadership_and_joins_no_isr() -> None:
    brokers = Brokers(2)
    brokers.heartbeat(1, stop=True)
    brokers.create("orders")
    assert brokers.leader_and_isr() == (2, (2,))


def test_the_last_replica_in_sync_stays_in_sync_when_its_broker_stops() -> None:
    brokers = Brokers(2)
    brokers.topic_on((1,))
    brokers.heartbeat(1, stop=True)
    assert brokers.leader_and_isr() == (NO_LEADER, (1,))
    brokers.heartbeat(2)
    brokers.heartbeat(1, stop=True)
    brokers.start(1)
    brokers.unfence(1)
    assert brokers.leader_and_isr() == (1, (1,))


def test_a_fenced_broker_may_stop_at_once() -> None:
    brokers = Brokers(1)
    brokers.start(2)
    assert brokers.heartbeat(2, stop=True) == HeartbeatAnswer(True, True, True)


def test_a_new_controller_lets_a_stopping_broker_wait_for_the_others_again() -> None:
    brokers = Brokers(2)
    brokers.topic_on((1, 2))
    brokers.heartbeat(1, stop=True)
    brokers.ask(Activate(EPOCH + 1, brokers.machine.sessions.next_offset))
    assert brokers.heartbeat(1, stop=True) == HeartbeatAnswer(True, False, False)
    brokers.heartbeat(2)
    assert brokers.heartbeat(1, stop=True) == HeartbeatAnswer(True, True, True)


# A cluster of one


def test_the_only_broker_is_ready_at_once_and_sets_no_timer() -> None:
    brokers = Brokers(0)
    brokers.register(1)
    brokers.create("orders")
    assert brokers.image.is_active(BrokerId(1)) and brokers.machine.deadline() is None
    brokers.ask(Activate(EPOCH + 1, brokers.machine.sessions.next_offset))
    brokers.register(1)
    assert brokers.machine.deadline() is None
    partition = brokers.partition()
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 1, 1)
