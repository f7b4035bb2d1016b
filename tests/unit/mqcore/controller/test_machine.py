"""The controller as a machine: random commands, and its journal replayed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mqcore.controller.commands import (
    DeleteTopics,
)
from mqcore.controller.image import ClusterImage
from mqcore.controller.records import decode, encode
from mqcore.coordination.decision import Tick, Ticket
from tests.unit.mqcore.controller.cluster_driver import TICKET, Cluster
from tests.unit.mqcore.controller.random_commands import RandomCommand, random_commands, visible_state
from tests.unit.mqcore.coordination.virtual import VirtualClock


@settings(max_examples=150, deadline=None)
@given(st.lists(random_commands, max_size=15))
def test_any_commands_leave_a_valid_image_that_the_journal_rebuilds(asked: list[RandomCommand]) -> None:
    cluster = Cluster(brokers=2)
    for make_command in asked:
        command = make_command(cluster.new_id)
        if isinstance(command, int):
            cluster.register(command)
        else:
            cluster.submit(command)  # also checks the invariants
    again = ClusterImage()
    for fact in cluster.facts:
        again.apply(decode(encode(fact)[1]))
    assert visible_state(again) == visible_state(cluster.image)


def test_decide_changes_nothing() -> None:
    cluster = Cluster()
    cluster.create("orders")
    before = visible_state(cluster.image)
    command = DeleteTopics((("orders", None),))
    first = cluster.machine.decide(TICKET, command, VirtualClock().now())
    assert cluster.machine.decide(TICKET, command, VirtualClock().now()) == first
    assert visible_state(cluster.image) == before


def test_a_tick_decides_nothing() -> None:
    cluster = Cluster()
    decision = cluster.machine.decide(Ticket(0), Tick(), VirtualClock().now())
    assert not decision.facts and not decision.answers and cluster.machine.deadline() is None
