"""A broker's membership: registered, unfenced when its logs are open, and handed over before it stops."""

from __future__ import annotations

from uuid import UUID

import pytest

from mqcore.controller.cluster_commands import RegisterBroker, UnregisterBroker, new_incarnation
from mqcore.controller.lifecycle import LifecycleRules, Phase
from mqcore.controller.registering import Registering
from mqcore.identity import BrokerId
from tests.unit.mqcore.controller.fake_quorum import OTHER
from tests.unit.mqcore.controller.test_active import Node

RULES = LifecycleRules(shutdown_timeout_ms=3_000)


class Member:
    def __init__(self) -> None:
        self.node = Node()
        self.changes: list[tuple[Phase, bool]] = []
        registration = RegisterBroker(
            BrokerId(1), new_incarnation(1, UUID(int=5)), (), None, directories=(UUID(int=7),)
        )
        self.broker = Registering(
            registration, RULES, self.node.controller, self.node.observer, self.node.clock, self._changed
        )

    def _changed(self) -> None:
        self.changes.append((self.broker.phase, self.broker.is_fenced))

    def phase(self) -> Phase:
        return self.broker.phase

    def start(self) -> None:
        self.node.elect()
        self.broker.start()
        self.node.turn()

    def run(self) -> None:
        self.start()
        self.broker.logs_opened()
        self.node.turn()


@pytest.fixture
def member() -> Member:
    return Member()


def test_a_broker_is_registered_first_and_unfenced_when_its_logs_are_open(member: Member) -> None:
    member.start()
    assert member.phase() is Phase.RECOVERY and member.broker.is_fenced
    assert member.broker.knows_its_replicas and member.broker.broker_epoch >= 0
    member.node.clock.advance(5 * RULES.heartbeat_ms)
    assert member.broker.is_fenced
    member.broker.logs_opened()
    member.node.turn()
    assert member.phase() is Phase.RUNNING and not member.broker.is_fenced
    assert member.changes == [(Phase.RECOVERY, True), (Phase.RUNNING, False)]
    assert not member.node.observer.image.brokers[BrokerId(1)].fenced


def test_a_running_broker_stays_a_member(member: Member) -> None:
    member.run()
    member.node.clock.advance(60_000)
    assert not member.node.observer.image.brokers[BrokerId(1)].fenced


def test_a_broker_whose_heartbeats_stop_is_fenced(member: Member) -> None:
    member.run()
    member.broker.close()
    member.node.clock.advance(60_000)
    assert member.node.observer.image.brokers[BrokerId(1)].fenced


def test_without_a_controller_a_broker_asks_again_until_there_is_one(
    member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    member.broker.start()
    member.node.clock.advance(10_000)
    assert member.phase() is Phase.STARTING
    assert caplog.text.count("no active controller has answered") == 1
    member.node.elect()
    member.node.clock.advance(RULES.retry_ms)
    assert member.phase() is Phase.RECOVERY


def test_a_stop_ends_when_the_controller_lets_the_broker_go(member: Member) -> None:
    member.run()
    member.broker.shut_down()
    member.node.clock.advance(RULES.shutdown_heartbeat_ms)
    assert member.phase() is Phase.ENDED
    assert member.node.observer.image.brokers[BrokerId(1)].fenced
    assert member.node.clock.next_timer_ms is None or member.node.clock.next_timer_ms > 10_000


def test_a_stop_without_a_controller_ends_at_its_timeout(member: Member) -> None:
    member.run()
    member.node.quorum.elect(OTHER)
    member.broker.shut_down()
    member.node.clock.advance(RULES.shutdown_timeout_ms - 1)
    assert member.phase() is Phase.PENDING_SHUTDOWN
    member.node.clock.advance(1 + RULES.retry_ms)
    assert member.phase() is Phase.ENDED


def test_a_broker_that_the_controller_does_not_know_registers_again(member: Member) -> None:
    member.run()
    before = member.broker.broker_epoch
    member.node.submit(UnregisterBroker(BrokerId(1)))
    member.node.clock.advance(RULES.heartbeat_ms)
    member.node.turn()
    assert member.broker.broker_epoch > before
