"""Machine: one group. Commands in; facts and answers out. The rules of each command live in the module of its theme."""

from __future__ import annotations

from typing import assert_never

from mqcore.clock import Instant
from mqcore.coordination.decision import Decision, Tick, Ticket
from mqcore.groups import offsets
from mqcore.groups.commands import (
    Abandon,
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
    JoinAnswer,
    Leave,
    Phase,
    Resume,
    Sync,
    SyncAnswer,
)
from mqcore.groups.draft import Draft
from mqcore.groups.facts import GroupFact, SessionsRefreshed
from mqcore.groups.invariants import check
from mqcore.groups.joining import join
from mqcore.groups.membership import abandon, heartbeat, leave, resume, sync, tick
from mqcore.groups.memory import GroupMemory
from mqcore.groups.rules import GroupRules
from mqcore.groups.state import GroupState
from mqcore.identity import Millis
from mqcore.wire.errors import ErrorCode

GroupDecision = Decision[GroupFact, GroupAnswer]


class GroupMachine:
    """`memory` is shared by all groups of the broker; `release` gives back what this group took of it."""

    def __init__(self, rules: GroupRules, memory: GroupMemory | None = None) -> None:
        self.state = GroupState()
        self._rules = rules
        self._memory = memory or GroupMemory(rules.memory_bytes)
        self._memory.used += self.state.held_bytes
        self._released = False

    def decide(self, ticket: Ticket, command: GroupCommand | Tick, now: Instant) -> GroupDecision:
        match command:
            case Heartbeat():
                return self._decide_heartbeat(ticket, command, now)
            case Join() | Sync() | Leave() | Abandon() | Resume() | Tick():
                return self._decide_membership(ticket, command, now)
            case CommitOffsets():
                facts, answer = offsets.commit(self.state, command, self._rules, now, self._memory)
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
        before = self.state.held_bytes
        self.state.apply(fact)
        if not self._released:
            self._memory.used += self.state.held_bytes - before

    def release(self) -> None:
        """The group is dropped: what it held is free for others at once."""
        if not self._released:
            self._released = True
            self._memory.used -= self.state.held_bytes

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
        self, ticket: Ticket, command: Join | Sync | Leave | Abandon | Resume | Tick, now: Instant
    ) -> GroupDecision:
        draft = Draft(self.state, self._rules, now)
        match command:
            case Join():
                join(draft, ticket, command)
            case Sync():
                sync(draft, ticket, command)
            case Leave():
                leave(draft, ticket, command)
            case Abandon():
                abandon(draft, command)
                draft.answer(ticket, ErrorCode.NONE)
            case Resume():
                resume(draft)
                draft.answer(ticket, ErrorCode.NONE)
            case Tick():
                self.state.knows_deadline = False  # it may be later than was thought
                tick(draft)
            case _:
                assert_never(command)
        if self._memory.fits(draft.state.held_bytes - self.state.held_bytes):
            return draft.decision()
        return self._refuse(ticket, command)

    def _refuse(self, ticket: Ticket, command: Join | Sync | Leave | Abandon | Resume | Tick) -> GroupDecision:
        """The memory of all groups is used up. Clients take the error as passing, and come again."""
        assert isinstance(command, Join | Sync), f"{command} needs no memory"
        self._memory.refused += 1
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        answer = JoinAnswer(error, command.member_id) if isinstance(command, Join) else SyncAnswer(error)
        return Decision((), ((ticket, answer),))


def describe(state: GroupState) -> Description:
    """Subscriptions and assignments mean something only while the group is stable."""
    if state.is_blank:
        return Description(Phase.DEAD)
    protocol = state.protocol if state.phase is Phase.STABLE else None
    return Description(state.phase, state.protocol_type, protocol or "", tuple(state.members.values()))
