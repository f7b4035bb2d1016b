"""Machine: a decision in the making.

One command can set off a chain: a member leaves, so a rebalance begins, so the join is complete, so everybody is
answered. Each step tries its fact on a copy of the state and looks at the result; the state itself stays untouched.
"""

from __future__ import annotations

from mqcore.clock import Instant
from mqcore.coordination.decision import Decision, Ticket
from mqcore.groups.commands import GroupAnswer
from mqcore.groups.facts import GroupFact
from mqcore.groups.rules import GroupRules
from mqcore.groups.state import GroupState


class Draft:
    def __init__(self, state: GroupState, rules: GroupRules, now: Instant) -> None:
        self.state = state.copy()
        self.rules = rules
        self.now = now.monotonic_ms
        self.now_wall = now.wall_ms
        self._facts: list[GroupFact] = []
        self._answers: list[tuple[Ticket, GroupAnswer]] = []

    def record(self, fact: GroupFact) -> None:
        self.state.apply(fact)
        self._facts.append(fact)

    def answer(self, ticket: Ticket | None, answer: GroupAnswer) -> None:
        """Give `answer` to whoever holds the ticket; nobody may."""
        if ticket is not None:
            self._answers.append((ticket, answer))

    def decision(self) -> Decision[GroupFact, GroupAnswer]:
        return Decision(tuple(self._facts), tuple(self._answers))
