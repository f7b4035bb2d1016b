"""The controller of a node: it decides while the node leads the quorum, and never answers for a lost decision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from uuid import UUID

import pytest

from mqcore.config import BrokerConfig
from mqcore.controller import active
from mqcore.controller.active import ActiveController, ControllerSettings
from mqcore.controller.cluster_commands import Heartbeat, HeartbeatAnswer, RegisterBroker, Registered, new_incarnation
from mqcore.controller.commands import ControllerAnswer, ControllerCommand, CreatedTopic, CreateTopics, NewTopic
from mqcore.controller.lifecycle import LifecycleRules
from mqcore.controller.observer import MetadataObserver
from mqcore.controller.sessions import ControllerRules
from mqcore.coordination.journal import JournalFault, NotController
from mqcore.identity import BrokerId, Offset
from mqcore.wire.records import OWN_BATCH_BYTES_MAX
from tests.unit.mqcore.controller.cluster_driver import ONE_EACH
from tests.unit.mqcore.controller.fake_quorum import ME, OTHER, FakeQuorum
from tests.unit.mqcore.coordination.virtual import VirtualClock

Answers = list[ControllerAnswer | JournalFault]


class Node:
    def __init__(self) -> None:
        self.quorum = FakeQuorum()
        self.clock = VirtualClock()
        self.observer = MetadataObserver(cast(Any, self.quorum), self.clock)
        self.observer.start()
        settings = ControllerSettings(ONE_EACH, ControllerRules(), OWN_BATCH_BYTES_MAX, {"metadata.version": 7}, None)
        self.lost: list[BrokerId] = []
        self.controller = ActiveController(self.quorum, self.observer, self.clock, settings, lambda: self.lost)
        self.controller.start()

    def elect(self, node: BrokerId = ME) -> None:
        self.quorum.elect(node)
        self.turn()

    def turn(self) -> None:
        self.clock.advance(0)

    def submit(self, command: ControllerCommand) -> Answers:
        answers: Answers = []
        self.controller.submit(command, answers.append)
        self.turn()
        return answers

    def register(self, broker: int = 1, starts: int = 1) -> Answers:
        incarnation = new_incarnation(starts, UUID(int=broker))
        return self.submit(RegisterBroker(BrokerId(broker), incarnation, (), None, (UUID(int=broker),)))

    def join(self, broker: int = 1) -> int:
        """Register a broker and unfence it."""
        (registered,) = self.register(broker)
        assert isinstance(registered, Registered)
        self.submit(Heartbeat(BrokerId(broker), registered.broker_epoch, Offset(registered.broker_epoch + 1)))
        return registered.broker_epoch

    def create(self, name: str) -> Answers:
        return self.submit(CreateTopics((NewTopic(name, UUID(int=len(name))),)))


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node()
    yield node
    if node.controller._controller is not None:
        node.controller._controller.machine.check()


def was_created(answers: Answers) -> bool:
    (answer,) = answers
    return isinstance(answer, tuple) and isinstance(answer[0], CreatedTopic)


def test_a_node_that_does_not_lead_refuses_commands(node: Node) -> None:
    (answer,) = node.create("orders")
    assert isinstance(answer, NotController) and not node.controller.is_active
    node.elect(OTHER)
    (answer,) = node.create("orders")
    assert isinstance(answer, NotController)


def test_a_new_controller_starts_on_the_committed_image_and_writes_the_first_features(node: Node) -> None:
    heard: list[JournalFault | None] = []
    node.controller.when_active(heard.append)
    node.elect()
    assert node.controller.is_active and heard == [None]
    assert node.observer.image.features == {"metadata.version": 7}
    node.join()
    assert was_created(node.create("orders"))
    end = node.quorum.log.end_offset
    node.elect()
    assert node.quorum.log.end_offset == end + 1, "the features are written once"
    (again,) = node.create("orders")
    assert isinstance(again, tuple) and not isinstance(again[0], CreatedTopic), "the next controller knows the topic"


def test_a_controller_waits_until_its_node_has_applied_what_is_committed(node: Node) -> None:
    node.quorum.elect()
    assert not node.controller.is_active  # the observer has its turn first
    node.turn()
    assert node.controller.is_active


def test_callers_hear_of_a_lost_leadership_and_nothing_else(node: Node) -> None:
    node.elect()
    node.join()
    node.quorum.holds = True
    waiting, queued = node.create("orders"), node.create("stocks")
    assert waiting == queued == []
    node.quorum.lose()
    assert isinstance(waiting[0], NotController) and isinstance(queued[0], NotController)
    node.quorum.holds = False
    node.elect()
    assert node.observer.image.topics == {}
    assert was_created(node.create("orders"))
    assert len(waiting) == len(queued) == 1


def test_a_paused_controller_that_loses_its_term_answers_what_waits(node: Node) -> None:
    node.elect()
    node.join()
    resume = node.controller.pause()
    waiting = node.create("orders")
    node.quorum.lose()
    assert isinstance(waiting[0], NotController)
    resume()
    node.elect()
    assert was_created(node.create("orders")), "the pause belonged to the other term"


def test_a_term_that_ends_before_it_began_leaves_no_controller(node: Node) -> None:
    node.quorum.elect()
    node.quorum.lose()
    node.turn()
    assert not node.controller.is_active


def test_the_epoch_of_a_broker_is_the_offset_of_its_registration_after_a_record_of_the_quorum(node: Node) -> None:
    node.elect()
    assert node.register(1) == [Registered(node.quorum.log.end_offset - 1)]
    node.quorum.append_own_record()  # a voter is adopted
    assert node.register(2) == [Registered(node.quorum.log.end_offset - 1)]


def test_without_the_log_end_the_epoch_would_be_wrong(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active, "_OnQuorumLog", lambda machine, journal: machine)
    node.elect()
    node.quorum.append_own_record()
    assert node.register(1) != [Registered(node.quorum.log.end_offset - 1)]


def test_an_epoch_counts_the_records_that_are_collected_for_the_next_batch(node: Node) -> None:
    """The machine's own ticks do not wait in the queue: two brokers are fenced while the first batch is not durable."""
    node.elect()
    first, second = node.join(1), node.join(2)
    node.quorum.holds = True
    node.clock.advance(4_500)  # both are fenced
    registered = node.register(2, starts=2)
    node.quorum.holds = False
    node.quorum.commit()
    node.turn()
    (answer,) = registered
    assert isinstance(answer, Registered) and answer.broker_epoch > second > first
    assert node.observer.image.brokers[BrokerId(2)].broker_epoch == answer.broker_epoch
    assert answer.broker_epoch == node.quorum.log.end_offset - 1


def test_an_answer_without_facts_waits_for_the_facts_that_are_collected(node: Node) -> None:
    node.elect()
    epoch = node.join(1)
    node.join(2)
    node.quorum.holds = True
    node.clock.advance(4_500)
    heard = node.submit(Heartbeat(BrokerId(1), epoch, Offset(0), wants_fence=True))
    assert heard == []  # it says that the broker is fenced, and that is not committed
    node.quorum.commit()
    node.turn()
    (answer,) = heard
    assert isinstance(answer, HeartbeatAnswer) and answer.is_fenced


def test_a_term_whose_first_records_cannot_be_written_is_given_up(node: Node) -> None:
    heard: list[JournalFault | None] = []
    node.controller.when_active(heard.append)
    node.quorum.elect()
    node.quorum.offline_reason = "no space left"
    node.turn()
    assert isinstance(heard[0], JournalFault) and "no space left" in str(heard[0])
    assert not node.controller.is_active


def test_a_metadata_log_that_is_offline_is_named_as_the_reason(node: Node) -> None:
    node.elect()
    node.quorum.go_offline("the disk is gone")
    (answer,) = node.create("orders")
    assert not isinstance(answer, NotController) and "the disk is gone" in str(answer)


@pytest.mark.parametrize(("is_lost", "sessions_ms"), [(True, 500), (False, 4_500)])
def test_a_broker_that_died_with_the_last_controller_is_fenced_soon(
    node: Node, is_lost: bool, sessions_ms: int
) -> None:
    node.elect()
    node.join(2)
    node.lost = [BrokerId(2), BrokerId(3)] if is_lost else []
    node.elect()
    node.clock.advance(sessions_ms - 1)
    assert not node.observer.image.brokers[BrokerId(2)].fenced
    node.clock.advance(1)
    assert node.observer.image.brokers[BrokerId(2)].fenced


def test_the_rules_come_from_the_settings() -> None:
    config = BrokerConfig(broker_session_timeout_ms=9_000, leader_imbalance_check_interval_seconds=7)
    assert ControllerRules.of(config) == ControllerRules(session_ms=9_000, balance_interval_ms=7_000)
    never = BrokerConfig(auto_leader_rebalance_enable=False)
    assert ControllerRules.of(never).balance_interval_ms is None
    member = LifecycleRules.of(BrokerConfig(broker_heartbeat_interval_ms=77, controlled_shutdown_timeout_ms=5))
    assert (member.heartbeat_ms, member.shutdown_timeout_ms) == (77, 5)
