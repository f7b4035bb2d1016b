"""Machine: how a rebalance begins, who falls out of the group, and when the next generation begins."""

from __future__ import annotations

from mqcore.groups.commands import JoinAnswer, Phase, SyncAnswer
from mqcore.groups.draft import Draft
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

_LEAST_EXTENSION_MS = 1_000  # static members that are away may have asked for a rebalance timeout of nothing


def rebalance(draft: Draft) -> None:
    """Ask everybody to join again, unless that is under way; then the next generation, if all are there already."""
    state = draft.state
    if state.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE):
        syncing = [member for member in state.members.values() if member.syncing is not None]
        for member in syncing:
            draft.answer(member.syncing, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
        draft.record(RebalanceBegan(Millis(draft.now + state.rebalance_timeout_ms)))
        # Their sessions stood still while they waited for the leader.
        draft.record(SessionsRefreshed(tuple(member.member_id for member in syncing), draft.now))
    elif state.phase is Phase.EMPTY:
        delay_ms = draft.rules.initial_rebalance_delay_ms
        if delay_ms:
            latest = draft.now + max(delay_ms, state.rebalance_timeout_ms)
            draft.record(RebalanceBegan(Millis(draft.now + delay_ms), Millis(latest)))
        else:
            draft.record(RebalanceBegan(Millis(draft.now + state.rebalance_timeout_ms)))
    complete_if_due(draft)


def remove(draft: Draft, member: Member, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
    """Take a member out and let go of its requests. The caller goes on to `rebalance`."""
    let_go(draft, member, error)
    draft.record(MemberRemoved(member.member_id))


def let_go(draft: Draft, member: Member, error: ErrorCode) -> None:
    """Answer what the member waits for: it was removed, replaced, or has asked again in the meantime."""
    draft.answer(member.joining, JoinAnswer(error, member.member_id))
    draft.answer(member.syncing, SyncAnswer(error))


def complete_if_due(draft: Draft) -> None:
    """Go on to the next generation if everybody has joined or the time for it is over."""
    state = draft.state
    if state.phase is not Phase.PREPARING_REBALANCE or state.join_deadline is None:
        return
    over = draft.now >= state.join_deadline
    if over and _extend_first_rebalance(draft):
        return
    if over or (state.is_rebalancing_member_wise and _all_joined(state)):
        _complete(draft)


def _all_joined(state: GroupState) -> bool:
    return not state.pending and all(member.joining is not None for member in state.members.values())


def _extend_first_rebalance(draft: Draft) -> bool:
    """An empty group goes on waiting as long as members keep coming, within the rebalance timeout."""
    state = draft.state
    latest = state.extendable_until
    if latest is None or not state.grew or draft.now >= latest:
        return False
    draft.record(RebalanceExtended(Millis(min(draft.now + draft.rules.initial_rebalance_delay_ms, latest))))
    return True


def _complete(draft: Draft) -> None:
    state = draft.state
    for member in list(state.members.values()):
        if member.joining is None and not member.is_static:
            draft.record(MemberRemoved(member.member_id))
    if not state.members:
        draft.record(GroupEmptied(state.generation + 1, state.protocol_type, draft.now_wall))
        return
    joined = state.joined()
    if not joined:  # only static members, all away: their sessions decide
        extension_ms = max(state.rebalance_timeout_ms, _LEAST_EXTENSION_MS)
        draft.record(RebalanceExtended(Millis(draft.now + extension_ms)))
        return
    leader = state.leader if any(member.member_id == state.leader for member in joined) else joined[0].member_id
    assert leader is not None
    sync_deadline = Millis(draft.now + state.rebalance_timeout_ms)
    draft.record(GenerationBegan(state.generation + 1, state.elect_protocol(), leader, draft.now, sync_deadline))
    for member in joined:
        draft.answer(member.joining, current_generation(state, member.member_id))


def current_generation(state: GroupState, member_id: str) -> JoinAnswer:
    """What a member that has joined is told; the leader also gets the list to assign by."""
    return JoinAnswer(
        ErrorCode.NONE,
        member_id,
        state.generation,
        state.protocol_type,
        state.protocol,
        state.leader or "",
        members=state.subscriptions() if member_id == state.leader else (),
    )
