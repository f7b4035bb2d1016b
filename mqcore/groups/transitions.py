"""Machine: the phases of a group, as a table."""

from __future__ import annotations

from mqcore.groups.commands import Phase
from mqcore.groups.facts import GenerationBegan, GenerationSettled, GroupEmptied, GroupRemoved, RebalanceBegan

# Which fact leads from where to where. The journal holds no rebalances: when it is replayed, one settled generation
# follows another directly, or an empty group, or a removal; these steps are the second set of each row.
TRANSITIONS: dict[type, tuple[frozenset[Phase], frozenset[Phase], Phase]] = {
    RebalanceBegan: (
        frozenset({Phase.EMPTY, Phase.STABLE, Phase.COMPLETING_REBALANCE}),
        frozenset(),
        Phase.PREPARING_REBALANCE,
    ),
    GenerationBegan: (frozenset({Phase.PREPARING_REBALANCE}), frozenset(), Phase.COMPLETING_REBALANCE),
    GenerationSettled: (
        frozenset({Phase.COMPLETING_REBALANCE, Phase.STABLE}),  # Stable: a static member has changed its id
        frozenset({Phase.EMPTY}),
        Phase.STABLE,
    ),
    GroupEmptied: (frozenset({Phase.PREPARING_REBALANCE}), frozenset({Phase.EMPTY, Phase.STABLE}), Phase.EMPTY),
    GroupRemoved: (frozenset({Phase.EMPTY}), frozenset({Phase.STABLE, Phase.DEAD}), Phase.DEAD),
}
