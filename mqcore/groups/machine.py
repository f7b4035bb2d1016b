"""Machine: one group. Commands in; facts and answers out. The rules of the commands are in modules by theme."""

from __future__ import annotations

from typing import assert_never

from mqcore.coordination.decision import Decision, Tick, Ticket
from mqcore.groups import offsets
from mqcore.groups.commands import (
    AbandonJoin,
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
    ResumeSessions,
    Sync,
    SyncAnswer,
)
from mqcore.groups.draft import DecisionDraft
from mqcore.groups.facts import GroupFact, SessionsRefreshed
from mqcore.groups.invariants import check
from mqcore.groups.joining import decide_join
from mqcore.groups.membership import (
    decide_abandon_join,
    decide_leave,
    decide_resume_sessions,
    decide_sync,
    decide_tick,
    heartbeat_error,
)
from mqcore.groups.memory import GroupMemory
from mqcore.groups.rules import GroupRules
from mqcore.groups.state import GroupState
from mqcore.host import Instant
from mqcore.identity import Millis
from mqcore.wire.errors import ErrorCode

GroupDecision = Decision[GroupFact, GroupAnswer]


class GroupMachine:
    """`memory` is shared by all groups of the broker; `release` returns the share of this group."""

    def __init__(self, rules: GroupRules, memory: GroupMemory | None = None) -> None:
        self.state = GroupState()
        self._rules = rules
        self._memory = memory or GroupMemory(rules.memory_bytes)
        self._memory.used += self.state.held_bytes
        self._is_released = False

    def decide(self, ticket: Ticket, command: GroupCommand | Tick, now: Instant) -> GroupDecision:
        match command:
            case Heartbeat():
                return self._decide_heartbeat(ticket, command, now)
            case Join() | Sync() | Leave() | AbandonJoin() | ResumeSessions() | Tick():
                return self._decide_membership(ticket, command, now)
            case CommitOffsets():
                facts, answer = offsets.decide_commit(self.state, command, self._rules, now, self._memory)
                return Decision(facts, ((ticket, answer),))
            case FetchOffsets():
                return Decision((), ((ticket, offsets.fetch_offsets(self.state, command)),))
            case DeleteOffsets():
                facts, deleted = offsets.decide_delete(self.state, command)
                return Decision(facts, ((ticket, deleted),))
            case DeleteGroup():
                facts, error = offsets.decide_delete_group(self.state)
                return Decision(facts, ((ticket, error),))
            case ForgetTopic():
                return Decision(offsets.tombstones_of_topic(self.state, command.topic), ((ticket, ErrorCode.NONE),))
            case ExpireOffsets():
                return Decision(
                    offsets.tombstones_of_expired(self.state, self._rules, now), ((ticket, ErrorCode.NONE),)
                )
            case Describe():
                return Decision((), ((ticket, describe(self.state)),))
            case _:
                assert_never(command)

    def apply(self, fact: GroupFact) -> None:
        before = self.state.held_bytes
        self.state.apply(fact)
        if not self._is_released:
            self._memory.used += self.state.held_bytes - before

    def release(self) -> None:
        """Free the group's memory for other groups, because the group is dropped."""
        if not self._is_released:
            self._is_released = True
            self._memory.used -= self.state.held_bytes

    def deadline(self) -> Millis | None:
        return self.state.deadline()

    def check(self) -> None:
        check(self.state)

    def _decide_heartbeat(self, ticket: Ticket, command: Heartbeat, now: Instant) -> GroupDecision:
        answer = heartbeat_error(self.state, command)
        alive = answer in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
        facts = (SessionsRefreshed((command.member_id,), now.monotonic_ms),) if alive else ()
        return Decision(facts, ((ticket, answer),))

    def _decide_membership(
        self, ticket: Ticket, command: Join | Sync | Leave | AbandonJoin | ResumeSessions | Tick, now: Instant
    ) -> GroupDecision:
        draft = DecisionDraft(self.state, self._rules, now)
        match command:
            case Join():
                decide_join(draft, ticket, command)
            case Sync():
                decide_sync(draft, ticket, command)
            case Leave():
                decide_leave(draft, ticket, command)
            case AbandonJoin():
                decide_abandon_join(draft, command)
                draft.answer(ticket, ErrorCode.NONE)
            case ResumeSessions():
                decide_resume_sessions(draft)
                draft.answer(ticket, ErrorCode.NONE)
            case Tick():
                self.state.knows_deadline = False  # heartbeats may have moved it back
                decide_tick(draft)
            case _:
                assert_never(command)
        if self._memory.fits(draft.state.held_bytes - self.state.held_bytes):
            return draft.decision()
        return self._reject_for_memory(ticket, command)

    def _reject_for_memory(
        self, ticket: Ticket, command: Join | Sync | Leave | AbandonJoin | ResumeSessions | Tick
    ) -> GroupDecision:
        """The memory for groups is used up. Clients treat this error as temporary and retry."""
        assert isinstance(command, Join | Sync), f"{command} needs no memory"
        self._memory.refused += 1
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        answer = JoinAnswer(error, command.member_id) if isinstance(command, Join) else SyncAnswer(error)
        return Decision((), ((ticket, answer),))


def describe(state: GroupState) -> Description:
    """The protocol is shown only while the group is stable, because otherwise assignments are not valid."""
    if state.is_blank:
        return Description(Phase.DEAD)
    protocol = state.protocol if state.phase is Phase.STABLE else None
    return Description(state.phase, state.protocol_type, protocol or "", tuple(state.members.values()))
