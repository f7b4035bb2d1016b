"""The controller as others see it: answers after the commit, one decision at a time, ids that are given once."""

from __future__ import annotations

import pytest

from mqcore.controller.commands import (
    ControllerAnswer,
    ControllerCommand,
    CreateTopics,
    DeleteTopics,
    ProducerIdBlock,
    ReserveProducerIds,
    TopicMade,
)
from mqcore.controller.facts import MetadataFact
from mqcore.controller.machine import ControllerMachine
from mqcore.controller.queue import Controller
from mqcore.coordination.journal import JournalFault
from mqcore.identity import BrokerId
from mqcore.wire.errors import Refusal
from tests.unit.mqcore.controller.cast import ONE_EACH, Cluster, check_broker
from tests.unit.mqcore.coordination.virtual import MemoryJournal, VirtualClock

Answers = list[ControllerAnswer | JournalFault]


class Office:
    """A controller over a journal that commits when told."""

    def __init__(self) -> None:
        self.journal = MemoryJournal[MetadataFact]()
        self.machine = ControllerMachine(ONE_EACH, check_broker)
        self.controller = Controller(self.machine, self.journal, VirtualClock())
        self._seed = Cluster()
        for fact in self._seed.facts:
            self.machine.apply(fact)

    def ask(self, command: ControllerCommand) -> Answers:
        answers: Answers = []
        self.controller.submit(command, answers.append)
        return answers

    def topic(self, name: str) -> CreateTopics:
        return CreateTopics((self._seed.topic(name),))


@pytest.fixture
def office() -> Office:
    return Office()


def made(answers: Answers) -> bool:
    (answer,) = answers
    return isinstance(answer, tuple) and isinstance(answer[0], TopicMade)


def test_nobody_hears_of_a_topic_before_it_is_committed(office: Office) -> None:
    office.journal.hold()
    first, again = office.ask(office.topic("orders")), office.ask(office.topic("orders"))
    assert first == again == []  # the refusal rests on the same facts
    office.journal.release()
    (refused,) = again
    assert made(first) and isinstance(refused, tuple) and isinstance(refused[0], Refusal)


def test_the_next_command_is_decided_when_the_last_is_committed(office: Office) -> None:
    office.journal.hold()
    asked = [office.ask(office.topic(name)) for name in ("a", "b", "c")]
    assert set(office.machine.image.topics) == {"a"}
    office.journal.release()
    assert set(office.machine.image.topics) == {"a", "b", "c"} and all(map(made, asked))


def test_a_topic_that_could_not_be_written_down_was_not_made_and_holds_up_nobody(office: Office) -> None:
    office.journal.broken = True
    first, second = office.ask(office.topic("orders")), office.ask(office.topic("stock"))
    assert isinstance(first[0], JournalFault) and isinstance(second[0], JournalFault)
    assert not office.machine.image.topics
    office.journal.broken = False
    assert made(office.ask(office.topic("orders")))


def test_whoever_hears_an_answer_may_ask_again_at_once(office: Office) -> None:
    heard: list[bool] = []

    def then(answer: ControllerAnswer | JournalFault) -> None:
        heard.append(made([answer]))
        if len(heard) < 3:
            office.controller.submit(office.topic(f"topic-{len(heard)}"), then)

    office.controller.submit(office.topic("topic-0"), then)
    assert heard == [True, True, True]


def test_thousands_that_wait_are_answered_in_a_row(office: Office) -> None:
    """A loop, not a recursion."""
    office.journal.hold()
    first = office.ask(office.topic("orders"))
    asked = [office.ask(DeleteTopics((("nope", None),))) for _ in range(5000)]
    assert not any(asked)
    office.journal.release()
    assert made(first) and all(len(answers) == 1 for answers in asked)


def test_one_who_fails_at_the_answer_does_not_hold_up_the_others(office: Office) -> None:
    def fails(answer: ControllerAnswer | JournalFault) -> None:
        raise RuntimeError("the client's connection, for example")

    office.journal.hold()
    office.controller.submit(office.topic("orders"), fails)
    other = office.ask(office.topic("stock"))
    with pytest.raises(RuntimeError):
        office.journal.release()
    assert set(office.machine.image.topics) == {"orders", "stock"}
    assert made(other) and made(office.ask(office.topic("third")))


def test_producer_ids_are_reserved_in_blocks_that_never_meet(office: Office) -> None:
    given_out: list[int] = []
    for _ in range(3):
        (block,) = office.ask(ReserveProducerIds(BrokerId(1)))
        assert isinstance(block, ProducerIdBlock)
        given_out += range(block.first, block.first + block.count)
    assert len(set(given_out)) == 3000
    assert office.machine.image.next_producer_id == 3000
