"""Machine: one group. Commands in; facts and answers out. The rules of each command live in the module of its theme."""

from __future__ import annotations

from typing import assert_never

from mqcore.clock import Instant
from mqcore.coordination.decision import Decision, Tick, Ticket
from mqcore.groups import offsets
from mqcore.groups.commands import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Describe,
    Description,
    ExpireOffsets,
    FetchOffsets,
    ForgetTopic,
    GroupAnswer,
    GroupCommand,
    Heartbeat,
    Join,
    Leave,
    Phase,
    Resume,
    Sync,
)
from mqcore.groups.draft import Draft
from mqcore.groups.facts import GroupFact, SessionsRefreshed
from mqcore.groups.invariants import check
from mqcore.groups.joining import join
from mqcore.groups.membership import heartbeat, leave, resume, sync, tick
from mqcore.groups.rules import GroupRules
from mqcore.groups.state import GroupState
from mqcore.identity import Millis
from mqcore.wire.errors import ErrorCode

GroupDecision = Decision[GroupFact, GroupAnswer]


class GroupMachine:
    def __init__(self, rules: GroupRules) -> None:
        self.state = GroupState()
        self._rules = rules

    def decide(self, ticket: Ticket, command: GroupCommand | Tick, now: Instant) -> GroupDecision:
        match command:
            case Heartbeat():
                return self._decide_heartbeat(ticket, command, now)
            case Join() | Sync() | Leave() | Resume() | Tick():
                return self._decide_membership(ticket, command, now)
            case CommitOffsets():
                facts, answer = offsets.commit(self.state, command, self._rules, now)
                return Decision(facts, ((ticket, answer),))
            case FetchOffsets():
                return Decision((), ((ticket, offsets.fetch(self.state, command)),))
            case DeleteOffsets():
                facts, deleted = offsets.delete(self.state, command)
                return Decision(facts, ((ticket, deleted),))
            case DeleteGroup():
                facts, error = offsets.remove_group(self.state)
                return Decision(facts, ((ticket, error),))
            case ForgetTopic():
                return Decision(offsets.forget_topic(self.state, command.topic), ((ticket, ErrorCode.NONE),))
            case ExpireOffsets():
                return Decision(offsets.expire(self.state, self._rules, now), ((ticket, ErrorCode.NONE),))
            case Describe():
                return Decision((), ((ticket, describe(self.state)),))
            case _:
                assert_never(command)

    def apply(self, fact: GroupFact) -> None:
        self.state.apply(fact)

    def deadline(self) -> Millis | None:
        return self.state.deadline()

    def check(self) -> None:
        check(self.state)

    def _decide_heartbeat(self, ticket: Ticket, command: Heartbeat, now: Instant) -> GroupDecision:
        answer = heartbeat(self.state, command)
        alive = answer in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
        facts = (SessionsRefreshed((command.member_id,), now.monotonic_ms),) if alive else ()
        return Decision(facts, ((ticket, answer),))

    def _decide_membership(
        self, ticket: Ticket, command: Join | Sync | Leave | Resume | Tick, now: Instant
    ) -> GroupDecision:
        draft = Draft(self.state, self._rules, now)
        match command:
            case Join():
                join(draft, ticket, command)
            case Sync():
                sync(draft, ticket, command)
            case Leave():
                leave(draft, ticket, command)
            case Resume():
                resume(draft)
                draft.answer(ticket, ErrorCode.NONE)
            case Tick():
                tick(draft)
            case _:
                assert_never(command)
        return draft.decision()


def describe(state: GroupState) -> Description:
    """Subscriptions and assignments mean something only while the group is stable."""
    if state.is_blank:
        return Description(Phase.DEAD)
    protocol = state.protocol if state.phase is Phase.STABLE else None
    return Description(state.phase, state.protocol_type, protocol or "", tuple(state.members.values()))
