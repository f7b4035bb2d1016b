"""The states of a group: every way from one to another is in the table, and there is no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest

from mqcore.groups.commands import Phase
from mqcore.groups.facts import (
    GenerationBegan,
    GenerationSettled,
    GroupEmptied,
    GroupFact,
    GroupRemoved,
    KeptFact,
    Member,
    MemberJoined,
    OffsetCommitted,
    OffsetRemoved,
    RebalanceBegan,
)
from mqcore.groups.invariants import check
from mqcore.groups.state import TRANSITIONS, GroupState
from mqcore.identity import Millis
from tests.unit.mqcore.groups.cast import RANGE, Group

FACTS: dict[type, Callable[[], GroupFact]] = {
    RebalanceBegan: lambda: RebalanceBegan(Millis(5)),
    GenerationBegan: lambda: GenerationBegan(1, "range", "m", Millis(1), Millis(9)),
    GenerationSettled: lambda: GenerationSettled(1, "consumer", "range", "m"),
    GroupEmptied: lambda: GroupEmptied(1, "consumer", Millis(1)),
    GroupRemoved: GroupRemoved,
}


def test_the_table_has_a_row_for_every_fact_that_moves_a_group() -> None:
    assert TRANSITIONS.keys() == FACTS.keys()
    assert set(get_args(KeptFact)) - TRANSITIONS.keys() == {OffsetCommitted, OffsetRemoved}


def test_every_state_can_be_reached_and_all_but_the_last_can_be_left() -> None:
    assert {then for _, _, then in TRANSITIONS.values()} == set(Phase)
    left = {phase for running, _, _ in TRANSITIONS.values() for phase in running}
    assert left == set(Phase) - {Phase.DEAD}


@pytest.mark.parametrize("kind", TRANSITIONS)
@pytest.mark.parametrize("phase", list(Phase))
def test_a_fact_moves_a_group_only_from_where_the_table_says(kind: type, phase: Phase) -> None:
    state = GroupState()
    state.apply(MemberJoined(Member("m", None, "c", "/h", 6_000, 6_000, RANGE), "consumer"))
    state.phase = phase
    running, replayed, then = TRANSITIONS[kind]
    if phase in running | replayed:
        state.apply(FACTS[kind]())
        assert state.phase is then
    else:
        with pytest.raises(AssertionError):
            state.apply(FACTS[kind]())


def test_a_copy_is_independent() -> None:
    group = Group()
    group.stable(2)
    copy = group.state.copy()
    copy.apply(RebalanceBegan(Millis(1)))
    copy.members.clear()
    copy.instances["x"] = "y"
    copy.pending["z"] = Millis(1)
    assert group.is_in(Phase.STABLE)
    assert len(group.state.members) == 2
    check(group.state)
    with pytest.raises(AssertionError):
        check(copy)
