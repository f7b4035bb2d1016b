"""Machine: the phases of a group and the facts that lead from one to the next, as a table.

    Empty ── RebalanceBegan ──▶ PreparingRebalance
    Stable ── RebalanceBegan ──▶ PreparingRebalance
    CompletingRebalance ── RebalanceBegan ──▶ PreparingRebalance
    PreparingRebalance ── GenerationBegan ──▶ CompletingRebalance
    CompletingRebalance ── GenerationAssigned ──▶ Stable
    Stable ── GenerationAssigned ──▶ Stable
    PreparingRebalance ── GroupEmptied ──▶ Empty
    Empty ── GroupRemoved ──▶ Dead

A stable group stays stable when a restarted static member gets a new id. A test compares this list with the table.
"""

from __future__ import annotations

from typing import NamedTuple

from mqcore.groups.commands import Phase
from mqcore.groups.facts import GenerationAssigned, GenerationBegan, GroupEmptied, GroupRemoved, RebalanceBegan

PhaseFact = RebalanceBegan | GenerationBegan | GenerationAssigned | GroupEmptied | GroupRemoved


class Transition(NamedTuple):
    """`when_running`: the phases in which the fact may happen.

    `when_replayed`: further phases in which a journal may contain it. The journal holds no rebalances, so during a
    replay an assigned generation, an empty group or a removal may follow one another directly.
    """

    when_running: frozenset[Phase]
    when_replayed: frozenset[Phase]
    target: Phase


TRANSITIONS: dict[type[PhaseFact], Transition] = {
    RebalanceBegan: Transition(
        frozenset({Phase.EMPTY, Phase.STABLE, Phase.COMPLETING_REBALANCE}), frozenset(), Phase.PREPARING_REBALANCE
    ),
    GenerationBegan: Transition(frozenset({Phase.PREPARING_REBALANCE}), frozenset(), Phase.COMPLETING_REBALANCE),
    GenerationAssigned: Transition(
        frozenset({Phase.COMPLETING_REBALANCE, Phase.STABLE}), frozenset({Phase.EMPTY}), Phase.STABLE
    ),
    GroupEmptied: Transition(
        frozenset({Phase.PREPARING_REBALANCE}), frozenset({Phase.EMPTY, Phase.STABLE}), Phase.EMPTY
    ),
    GroupRemoved: Transition(frozenset({Phase.EMPTY}), frozenset({Phase.STABLE, Phase.DEAD}), Phase.DEAD),
}
