"""The queue of the controller: answers after the commit, one decision at a time."""

from __future__ import annotations

from uuid import UUID

import pytest

from mqcore.controller.cluster_commands import Heartbeat, RegisterBroker, Registered, new_incarnation
from mqcore.controller.commands import (
    ControllerAnswer,
    ControllerCommand,
    CreatedTopic,
    CreateTopics,
    DeleteTopics,
    ProducerIdBlock,
    ReserveProducerIds,
)
from mqcore.controller.facts import BrokerChanged, ControllerFact, SessionFact
from mqcore.controller.machine import ControllerMachine
from mqcore.controller.queue import Controller
from mqcore.coordination.journal import JournalFault
from mqcore.identity import BrokerId, Offset
from mqcore.wire.errors import Refusal
from tests.unit.mqcore.controller.cluster_driver import ONE_EACH, Cluster
from tests.unit.mqcore.coordination.virtual import MemoryJournal, VirtualClock

Answers = list[ControllerAnswer | JournalFault]


class ControllerDriver:
    """A controller over a journal that commits when told."""

    def __init__(self) -> None:
        self.journal = MemoryJournal[ControllerFact](lambda fact: not isinstance(fact, SessionFact))
        self.machine = ControllerMachine(ONE_EACH)
        self.clock = VirtualClock()
        self.controller = Controller(self.machine, self.journal, self.clock)
        self._seed = Cluster()
        for fact in self._seed.facts:
            self.machine.apply(fact)

    def submit(self, command: ControllerCommand) -> Answers:
        answers: Answers = []
        self.controller.submit(command, answers.append)
        return answers

    def topic(self, name: str) -> CreateTopics:
        return CreateTopics((self._seed.topic(name),))


@pytest.fixture
def driver() -> ControllerDriver:
    return ControllerDriver()


def made(answers: Answers) -> bool:
    (answer,) = answers
    return isinstance(answer, tuple) and isinstance(answer[0], CreatedTopic)


def test_no_command_is_answered_before_the_facts_it_rests_on_are_committed(driver: ControllerDriver) -> None:
    driver.journal.hold()
    first, again = driver.submit(driver.topic("orders")), driver.submit(driver.topic("orders"))
    assert first == again == []  # the rejection rests on the same facts
    driver.journal.release()
    (refused,) = again
    assert made(first) and isinstance(refused, tuple) and isinstance(refused[0], Refusal)


def test_the_next_command_is_decided_when_the_previous_one_is_committed(driver: ControllerDriver) -> None:
    driver.journal.hold()
    asked = [driver.submit(driver.topic(name)) for name in ("a", "b", "c")]
    assert set(driver.machine.image.topics) == {"a"}
    driver.journal.release()
    assert set(driver.machine.image.topics) == {"a", "b", "c"} and all(map(made, asked))


def test_a_command_that_cannot_be_journaled_has_no_effect_and_does_not_block_the_queue(
    driver: ControllerDriver,
) -> None:
    driver.journal.broken = True
    first, second = driver.submit(driver.topic("orders")), driver.submit(driver.topic("stock"))
    assert isinstance(first[0], JournalFault) and isinstance(second[0], JournalFault)
    assert not driver.machine.image.topics
    driver.journal.broken = False
    assert made(driver.submit(driver.topic("orders")))


def test_a_caller_may_submit_the_next_metadata_command_from_its_answer(driver: ControllerDriver) -> None:
    heard: list[bool] = []

    def then(answer: ControllerAnswer | JournalFault) -> None:
        heard.append(made([answer]))
        if len(heard) < 3:
            driver.controller.submit(driver.topic(f"topic-{len(heard)}"), then)

    driver.controller.submit(driver.topic("topic-0"), then)
    assert heard == [True, True, True]


def test_thousands_of_queued_commands_are_answered_without_recursion(driver: ControllerDriver) -> None:
    driver.journal.hold()
    first = driver.submit(driver.topic("orders"))
    asked = [driver.submit(DeleteTopics((("nope", None),))) for _ in range(5000)]
    assert not any(asked)
    driver.journal.release()
    assert made(first) and all(len(answers) == 1 for answers in asked)


def test_a_caller_that_raises_does_not_block_the_queue(driver: ControllerDriver) -> None:
    def fails(answer: ControllerAnswer | JournalFault) -> None:
        raise RuntimeError("the client's connection, for example")

    driver.journal.hold()
    driver.controller.submit(driver.topic("orders"), fails)
    other = driver.submit(driver.topic("stock"))
    with pytest.raises(RuntimeError):
        driver.journal.release()
    assert set(driver.machine.image.topics) == {"orders", "stock"}
    assert made(other) and made(driver.submit(driver.topic("third")))


def test_producer_ids_are_reserved_in_blocks_that_do_not_overlap(driver: ControllerDriver) -> None:
    given_out: list[int] = []
    for _ in range(3):
        (block,) = driver.submit(ReserveProducerIds(BrokerId(1)))
        assert isinstance(block, ProducerIdBlock)
        given_out += range(block.first, block.first + block.count)
    assert len(set(given_out)) == 3000
    assert driver.machine.image.next_producer_id == 3000


def test_a_broker_that_falls_silent_is_fenced_at_its_time_without_a_command(driver: ControllerDriver) -> None:
    register = RegisterBroker(BrokerId(2), new_incarnation(1, UUID(int=2)), (), None, (UUID(int=9),))
    (registered,) = driver.submit(register)
    assert isinstance(registered, Registered)
    kept = len(driver.journal.kept)
    driver.submit(Heartbeat(BrokerId(2), registered.broker_epoch, Offset(registered.broker_epoch + 1)))
    unfenced, fenced = BrokerChanged(BrokerId(2), registered.broker_epoch, fenced=False), 4_500
    driver.clock.advance(fenced - 1)
    assert driver.journal.kept[kept:] == [unfenced]
    driver.clock.advance(1)
    assert driver.journal.kept[kept:] == [unfenced, unfenced._replace(fenced=True)]
    driver.clock.advance(1_000_000)
    assert len(driver.journal.kept) == kept + 2
