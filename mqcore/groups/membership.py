"""Machine: the rules for members between two joins: SyncGroup, Heartbeat, LeaveGroup, and expired deadlines."""

from __future__ import annotations

from collections.abc import Mapping

from mqcore.coordination.decision import Ticket
from mqcore.groups.commands import AbandonJoin, Heartbeat, Leave, LeaveAnswer, Phase, Sync, SyncAnswer
from mqcore.groups.draft import DecisionDraft
from mqcore.groups.facts import (
    GenerationAssigned,
    MemberIdWithdrawn,
    MemberSynced,
    SessionsRefreshed,
)
from mqcore.groups.rebalancing import answer_waiting_requests, complete_if_due, remove_member, start_rebalance
from mqcore.groups.rules import GroupRules
from mqcore.groups.sessions import may_expire, to_stored_member
from mqcore.groups.state import GroupState
from mqcore.wire.errors import ErrorCode


def membership_error(state: GroupState, member_id: str, instance_id: str | None) -> ErrorCode | None:
    """Why the sender is not a member, or not any more; None if it is one."""
    if instance_id is not None:
        current = state.instances.get(instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if current != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return None if member_id in state.members else ErrorCode.UNKNOWN_MEMBER_ID


def generation_error(state: GroupState, member_id: str, instance_id: str | None, generation: int) -> ErrorCode | None:
    """Why the sender is not a member of the current generation; None if it is one."""
    error = membership_error(state, member_id, instance_id)
    if error is None and generation != state.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


# ── SyncGroup ────────────────────────────────────────────────────────────────────────────────────────


def decide_sync(draft: DecisionDraft, ticket: Ticket, command: Sync) -> None:
    state = draft.state
    error = _sync_error(state, command)
    if error is not None:
        draft.answer(ticket, SyncAnswer(error))
        return
    member = state.members[command.member_id]
    if state.phase is Phase.STABLE:
        draft.record(MemberSynced(member.member_id, None))
        draft.record(SessionsRefreshed((member.member_id,), draft.now))
        draft.answer(ticket, _sync_answer(state, member.assignment))
        return
    is_leader = member.member_id == state.leader
    if is_leader and _is_oversized(state, command, draft.rules):
        draft.answer(ticket, SyncAnswer(ErrorCode.INVALID_REQUEST))
        return
    answer_waiting_requests(draft, member, ErrorCode.REBALANCE_IN_PROGRESS)
    draft.record(MemberSynced(member.member_id, ticket))
    if is_leader:
        _assign(draft, dict(command.assignments))


def _sync_error(state: GroupState, command: Sync) -> ErrorCode | None:
    if state.phase is Phase.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = generation_error(state, command.member_id, command.instance_id, command.generation)
    if error is not None:
        return error
    if command.protocol_type is not None and command.protocol_type != state.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if command.protocol is not None and command.protocol != state.protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if state.phase is Phase.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return None


def _is_oversized(state: GroupState, command: Sync, rules: GroupRules) -> bool:
    assigned = dict(command.assignments)
    largest = max(map(len, assigned.values()), default=0)
    return largest > rules.max_member_bytes or generation_bytes(state, assigned) > rules.max_generation_bytes


def generation_bytes(state: GroupState, assigned: Mapping[str, bytes]) -> int:
    """The size of all subscriptions and assignments of one generation, which are kept in one record."""
    subscribed = sum(len(member.subscription(state.protocol)) for member in state.members.values())
    return subscribed + sum(map(len, assigned.values()))


def _assign(draft: DecisionDraft, assignments: dict[str, bytes]) -> None:
    """Record the leader's assignment, then answer every waiting SyncGroup. Members it omits get an empty assignment."""
    state = draft.state
    assert state.protocol is not None and state.leader is not None
    waiting = [member for member in state.members.values() if member.sync_ticket is not None]
    members = tuple(
        to_stored_member(member, state.protocol, assignments.get(member_id, b""))
        for member_id, member in state.members.items()
    )
    draft.record(
        GenerationAssigned(state.generation, state.protocol_type, state.protocol, state.leader, members, draft.now_wall)
    )
    draft.record(SessionsRefreshed(tuple(member.member_id for member in waiting), draft.now))
    for member in waiting:
        draft.answer(member.sync_ticket, _sync_answer(state, assignments.get(member.member_id, b"")))


def _sync_answer(state: GroupState, assignment: bytes) -> SyncAnswer:
    return SyncAnswer(ErrorCode.NONE, state.protocol_type, state.protocol, assignment)


# ── Heartbeat ────────────────────────────────────────────────────────────────────────────────────────


def heartbeat_error(state: GroupState, command: Heartbeat) -> ErrorCode:
    """The answer to a heartbeat. NONE and REBALANCE_IN_PROGRESS both refresh the session of the member."""
    if state.phase is Phase.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = generation_error(state, command.member_id, command.instance_id, command.generation)
    if error is not None:
        return error
    return ErrorCode.REBALANCE_IN_PROGRESS if state.phase is Phase.PREPARING_REBALANCE else ErrorCode.NONE


# ── LeaveGroup ───────────────────────────────────────────────────────────────────────────────────────


def decide_leave(draft: DecisionDraft, ticket: Ticket, command: Leave) -> None:
    count_before = len(draft.state.members)
    errors = tuple(_remove_leaving(draft, member_id, instance_id) for member_id, instance_id in command.members)
    draft.answer(ticket, LeaveAnswer(errors))
    _rebalance_if_smaller(draft, count_before)


def decide_abandon_join(draft: DecisionDraft, command: AbandonJoin) -> None:
    """Remove a new member whose connection broke before its first generation.

    Kafka keeps such a member until its session ends. Its client joins as another member when it comes back.
    """
    count_before = len(draft.state.members)
    member = draft.state.members.get(command.member_id)
    if member is not None and member.is_new and member.join_ticket is not None:
        remove_member(draft, member)
    _rebalance_if_smaller(draft, count_before)


def _remove_leaving(draft: DecisionDraft, member_id: str, instance_id: str | None) -> ErrorCode:
    state = draft.state
    if state.phase is Phase.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if instance_id is None and member_id in state.issued_ids:
        draft.record(MemberIdWithdrawn(member_id))
        return ErrorCode.NONE
    if instance_id is not None and not member_id:  # administrators name static members by their instance id
        member_id = state.instances.get(instance_id, "")
    error = membership_error(state, member_id, instance_id)
    if error is not None:
        return error
    remove_member(draft, state.members[member_id])
    return ErrorCode.NONE


def _rebalance_if_smaller(draft: DecisionDraft, count_before: int) -> None:
    if len(draft.state.members) < count_before and draft.state.phase is not Phase.EMPTY:
        start_rebalance(draft)
    else:
        complete_if_due(draft)


# ── deadlines ────────────────────────────────────────────────────────────────────────────────────────


def decide_tick(draft: DecisionDraft) -> None:
    """Withdraw unused ids, and remove members whose session or whose time to sync is over."""
    state = draft.state
    count_before = len(state.members)
    for member_id in [name for name, deadline in state.issued_ids.items() if deadline <= draft.now]:
        draft.record(MemberIdWithdrawn(member_id))
    overdue = [
        member
        for member in state.members.values()
        if member.session_deadline is not None and member.session_deadline <= draft.now and may_expire(member)
    ]
    if state.sync_deadline is not None and state.sync_deadline <= draft.now:
        expired = {member.member_id for member in overdue}
        overdue += [state.members[member_id] for member_id in sorted(state.unsynced - expired)]
    for member in overdue:
        remove_member(draft, member)
    _rebalance_if_smaller(draft, count_before)


def decide_resume_sessions(draft: DecisionDraft) -> None:
    """Members that were loaded from the journal have one session timeout to send a sign of life."""
    draft.record(SessionsRefreshed(tuple(draft.state.members), draft.now))
