"""The controller as a whole: any sequence of commands, its journal replayed, and ids that are given once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mqcore.controller.commands import (
    ControllerAnswer,
    ControllerCommand,
    CreateTopics,
    DeleteTopics,
    ProducerIdBlock,
    ReserveProducerIds,
)
from mqcore.controller.facts import MetadataFact
from mqcore.controller.image import ClusterImage
from mqcore.controller.machine import ControllerMachine
from mqcore.controller.records import decode, encode
from mqcore.controller.topics import TopicDefaults
from mqcore.coordination.decision import Tick, Ticket
from mqcore.coordination.journal import JournalFault
from mqcore.coordination.runner import Runner
from mqcore.identity import BrokerId
from tests.unit.mqcore.controller.cast import TICKET, Cluster, check_broker
from tests.unit.mqcore.controller.wishes import Wish, seen, wishes
from tests.unit.mqcore.coordination.virtual import MemoryJournal, VirtualClock


@settings(max_examples=150, deadline=None)
@given(st.lists(wishes, max_size=15))
def test_whatever_is_asked_the_image_stays_whole_and_the_journal_makes_it_again(asked: list[Wish]) -> None:
    cluster = Cluster(brokers=2)
    for wish in asked:
        command = wish(cluster.new_id)
        if isinstance(command, int):
            cluster.register(command)
        else:
            cluster.ask(command)  # checks the machine, too
    again = ClusterImage()
    for fact in cluster.facts:
        again.apply(decode(encode(fact)[1]))
    assert seen(again) == seen(cluster.image)


def test_to_decide_changes_nothing() -> None:
    cluster = Cluster()
    cluster.create("orders")
    before = seen(cluster.image)
    command = DeleteTopics((("orders", None),))
    first = cluster.machine.decide(TICKET, command, VirtualClock().now())
    assert cluster.machine.decide(TICKET, command, VirtualClock().now()) == first
    assert seen(cluster.image) == before


def test_time_alone_decides_nothing() -> None:
    cluster = Cluster()
    decision = cluster.machine.decide(Ticket(0), Tick(), VirtualClock().now())
    assert not decision.facts and not decision.answers and cluster.machine.deadline() is None


class Controller:
    """The machine under its runner, over a journal that commits when told."""

    def __init__(self) -> None:
        self.journal = MemoryJournal[MetadataFact]()
        self.machine = ControllerMachine(TopicDefaults(1, 1), check_broker)
        self._runner: Runner[ControllerCommand, MetadataFact, ControllerAnswer]
        self._runner = Runner(self.machine, self.journal, VirtualClock())
        self._seed = Cluster()
        for fact in self._seed.facts:
            self.machine.apply(fact)

    def ask(self, command: ControllerCommand) -> list[ControllerAnswer | JournalFault]:
        answers: list[ControllerAnswer | JournalFault] = []
        self._runner.submit(command, answers.append)
        return answers

    def topic(self, name: str) -> CreateTopics:
        return CreateTopics((self._seed.topic(name),))


def test_producer_ids_are_reserved_in_blocks_that_never_meet() -> None:
    controller = Controller()
    blocks = [controller.ask(ReserveProducerIds(BrokerId(1)))[0] for _ in range(3)]
    given_out: list[int] = []
    for block in blocks:
        assert isinstance(block, ProducerIdBlock)
        given_out += range(block.first, block.first + block.count)
    assert len(set(given_out)) == 3000
    assert controller.machine.image.next_producer_id == 3000


def test_nobody_hears_of_a_topic_before_it_is_committed() -> None:
    controller = Controller()
    controller.journal.hold()
    made = controller.ask(controller.topic("orders"))
    again = controller.ask(controller.topic("orders"))
    assert made == [] and again == []  # the refusal rests on the same facts
    controller.journal.release()
    assert len(made) == 1 and len(again) == 1


def test_a_topic_that_could_not_be_written_down_was_not_made() -> None:
    controller = Controller()
    controller.journal.broken = True
    (answer,) = controller.ask(controller.topic("orders"))
    assert isinstance(answer, JournalFault)
    assert not controller.machine.image.topics
    controller.journal.broken = False
    (answer,) = controller.ask(controller.topic("orders"))
    assert not isinstance(answer, JournalFault) and controller.machine.image.topics
