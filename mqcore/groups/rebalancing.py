"""Machine: how a rebalance begins, which members it drops, and when the next generation begins."""

from __future__ import annotations

from mqcore.groups.commands import JoinAnswer, Phase, SyncAnswer
from mqcore.groups.draft import DecisionDraft
from mqcore.groups.facts import (
    GenerationBegan,
    GroupEmptied,
    Member,
    MemberRemoved,
    RebalanceBegan,
    RebalanceExtended,
    SessionsRefreshed,
)
from mqcore.groups.state import GroupState
from mqcore.identity import Millis
from mqcore.wire.errors import ErrorCode

_EXTENSION_MS_MIN = 1_000  # absent static members may have asked for a rebalance timeout of 0


def start_rebalance(draft: DecisionDraft) -> None:
    """Make all members join again, unless a rebalance is under way. If all have joined already, complete it."""
    state = draft.state
    if state.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE):
        syncing = [member for member in state.members.values() if member.sync_ticket is not None]
        for member in syncing:
            draft.answer(member.sync_ticket, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
        draft.record(RebalanceBegan(Millis(draft.now + state.rebalance_timeout_ms)))
        # They could send no heartbeat while they waited for the leader, so their sessions start again.
        draft.record(SessionsRefreshed(tuple(member.member_id for member in syncing), draft.now))
    elif state.phase is Phase.EMPTY:
        delay_ms = draft.rules.initial_rebalance_delay_ms
        if delay_ms:
            latest = draft.now + max(delay_ms, state.rebalance_timeout_ms)
            draft.record(RebalanceBegan(Millis(draft.now + delay_ms), Millis(latest)))
        else:
            draft.record(RebalanceBegan(Millis(draft.now + state.rebalance_timeout_ms)))
    complete_if_due(draft)


def remove_member(draft: DecisionDraft, member: Member, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
    """Remove a member and answer its waiting requests. The caller starts a rebalance afterwards."""
    answer_waiting_requests(draft, member, error)
    draft.record(MemberRemoved(member.member_id))


def answer_waiting_requests(draft: DecisionDraft, member: Member, error: ErrorCode) -> None:
    """Answer the JoinGroup or SyncGroup that the member waits for, because it was removed, replaced, or has retried.

    Call it before the fact that changes the member is recorded: the fact overwrites the tickets.
    """
    draft.answer(member.join_ticket, JoinAnswer(error, member.member_id))
    draft.answer(member.sync_ticket, SyncAnswer(error))


def complete_if_due(draft: DecisionDraft) -> None:
    """Begin the next generation if all members have joined, or if the time for joining is over."""
    state = draft.state
    if state.phase is not Phase.PREPARING_REBALANCE or state.join_deadline is None:
        return
    is_over = draft.now >= state.join_deadline
    if is_over and _extend_first_rebalance(draft):
        return
    if is_over or (state.ends_when_all_have_joined and _all_have_joined(state)):
        _complete(draft)


def _all_have_joined(state: GroupState) -> bool:
    return not state.issued_ids and all(member.join_ticket is not None for member in state.members.values())


def _extend_first_rebalance(draft: DecisionDraft) -> bool:
    """The first rebalance of an empty group waits longer while new members arrive, up to the rebalance timeout."""
    state = draft.state
    latest = state.extendable_until
    if latest is None or not state.has_grown or draft.now >= latest:
        return False
    draft.record(RebalanceExtended(Millis(min(draft.now + draft.rules.initial_rebalance_delay_ms, latest))))
    return True


def _complete(draft: DecisionDraft) -> None:
    state = draft.state
    for member in list(state.members.values()):
        if member.join_ticket is None and not member.is_static:
            draft.record(MemberRemoved(member.member_id))
    if not state.members:
        draft.record(GroupEmptied(state.generation + 1, state.protocol_type, draft.now_wall))
        return
    joined = state.joined()
    if not joined:  # only static members are left, and all are absent: wait until they return or their sessions end
        extension_ms = max(state.rebalance_timeout_ms, _EXTENSION_MS_MIN)
        draft.record(RebalanceExtended(Millis(draft.now + extension_ms)))
        return
    leader = state.leader if any(member.member_id == state.leader for member in joined) else joined[0].member_id
    assert leader is not None
    sync_deadline = Millis(draft.now + state.rebalance_timeout_ms)
    draft.record(GenerationBegan(state.generation + 1, state.elect_protocol(), leader, draft.now, sync_deadline))
    for member in joined:
        draft.answer(member.join_ticket, join_answer(state, member.member_id))


def join_answer(state: GroupState, member_id: str) -> JoinAnswer:
    """The answer to a member of the current generation. The leader also gets the members, to assign partitions."""
    return JoinAnswer(
        ErrorCode.NONE,
        member_id,
        state.generation,
        state.protocol_type,
        state.protocol,
        state.leader or "",
        members=state.subscriptions() if member_id == state.leader else (),
    )
