"""Machine: a decision while it is being made.

One command can set off a chain: a member leaves, so a rebalance begins, so the join phase is complete, so all members
are answered. Each step applies its fact to a copy of the state and looks at the result. The real state is not touched.
"""

from __future__ import annotations

from mqcore.coordination.decision import Decision, Ticket
from mqcore.groups.commands import GroupAnswer
from mqcore.groups.facts import GroupFact
from mqcore.groups.rules import GroupRules
from mqcore.groups.state import GroupState
from mqcore.host import Instant


class DecisionDraft:
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
        """Answer the caller with this ticket. Without a ticket no caller waits, and nothing happens."""
        if ticket is not None:
            self._answers.append((ticket, answer))

    def decision(self) -> Decision[GroupFact, GroupAnswer]:
        return Decision(tuple(self._facts), tuple(self._answers))
