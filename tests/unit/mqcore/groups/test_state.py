"""The phases of a group: the table has every transition, and a group makes no other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import get_args

import pytest

from mqcore.groups import transitions
from mqcore.groups.commands import Phase
from mqcore.groups.facts import (
    GenerationAssigned,
    GenerationBegan,
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
from mqcore.groups.state import GroupState
from mqcore.groups.transitions import TRANSITIONS, PhaseFact
from mqcore.identity import Millis
from tests.unit.mqcore.groups.group_driver import RANGE, Group

FACTS: dict[type, Callable[[], GroupFact]] = {
    RebalanceBegan: lambda: RebalanceBegan(Millis(5)),
    GenerationBegan: lambda: GenerationBegan(1, "range", "m", Millis(1), Millis(9)),
    GenerationAssigned: lambda: GenerationAssigned(1, "consumer", "range", "m"),
    GroupEmptied: lambda: GroupEmptied(1, "consumer", Millis(1)),
    GroupRemoved: GroupRemoved,
}


def test_the_diagram_shows_exactly_the_transitions_of_the_table() -> None:
    drawn = set(re.findall(r"^    (\w+) ── (\w+) ──▶ (\w+)$", transitions.__doc__ or "", re.MULTILINE))
    assert drawn == {
        (phase.value, fact.__name__, transition.target.value)
        for fact, transition in TRANSITIONS.items()
        for phase in transition.when_running
    }


def test_the_table_has_a_row_for_every_fact_that_changes_the_phase() -> None:
    assert TRANSITIONS.keys() == FACTS.keys()
    assert set(get_args(KeptFact)) - TRANSITIONS.keys() == {OffsetCommitted, OffsetRemoved}


def test_every_phase_can_be_entered_and_every_phase_but_dead_can_be_left() -> None:
    assert {transition.target for transition in TRANSITIONS.values()} == set(Phase)
    left = {phase for transition in TRANSITIONS.values() for phase in transition.when_running}
    assert left == set(Phase) - {Phase.DEAD}


@pytest.mark.parametrize("kind", TRANSITIONS)
@pytest.mark.parametrize("phase", list(Phase))
def test_a_fact_is_accepted_only_in_the_phases_of_its_row(kind: type[PhaseFact], phase: Phase) -> None:
    state = GroupState()
    state.apply(MemberJoined(Member("m", None, "c", "/h", 6_000, 6_000, RANGE), "consumer"))
    state.phase = phase
    transition = TRANSITIONS[kind]
    if phase in transition.when_running | transition.when_replayed:
        state.apply(FACTS[kind]())
        assert state.phase is transition.target
    else:
        with pytest.raises(AssertionError):
            state.apply(FACTS[kind]())


def test_a_copy_of_the_state_is_independent() -> None:
    group = Group()
    group.stable(2)
    copy = group.state.copy()
    copy.apply(RebalanceBegan(Millis(1)))
    copy.members.clear()
    copy.instances["x"] = "y"
    copy.issued_ids["z"] = Millis(1)
    assert group.is_in(Phase.STABLE)
    assert len(group.state.members) == 2
    check(group.state)
    with pytest.raises(AssertionError):
        check(copy)
