"""The controller as a whole: any sequence of commands, its journal replayed, and ids that are given once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mqcore.controller.commands import (
    DeleteTopics,
)
from mqcore.controller.image import ClusterImage
from mqcore.controller.records import decode, encode
from mqcore.coordination.decision import Tick, Ticket
from tests.unit.mqcore.controller.cast import TICKET, Cluster
from tests.unit.mqcore.controller.wishes import Wish, seen, wishes
from tests.unit.mqcore.coordination.virtual import VirtualClock


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
