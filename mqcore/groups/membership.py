"""Machine: the rules of members between two joins: SyncGroup, Heartbeat, LeaveGroup, and what time does to them."""

from __future__ import annotations

from collections.abc import Mapping

from mqcore.coordination.decision import Ticket
from mqcore.groups.commands import Abandon, Heartbeat, Leave, LeaveAnswer, Phase, Sync, SyncAnswer
from mqcore.groups.draft import Draft
from mqcore.groups.facts import (
    GenerationSettled,
    MemberIdWithdrawn,
    MemberSynced,
    SessionsRefreshed,
)
from mqcore.groups.rebalancing import complete_if_due, let_go, rebalance, remove
from mqcore.groups.rules import GroupRules
from mqcore.groups.state import GroupState, may_expire, settle
from mqcore.wire.errors import ErrorCode


def fence(state: GroupState, member_id: str, instance_id: str | None) -> ErrorCode | None:
    """Why this is no member (any more), or None if it is one."""
    if instance_id is not None:
        current = state.instances.get(instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if current != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return None if member_id in state.members else ErrorCode.UNKNOWN_MEMBER_ID


def fence_generation(state: GroupState, member_id: str, instance_id: str | None, generation: int) -> ErrorCode | None:
    error = fence(state, member_id, instance_id)
    if error is None and generation != state.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


# ── SyncGroup ────────────────────────────────────────────────────────────────────────────────────────


def sync(draft: Draft, ticket: Ticket, command: Sync) -> None:
    state = draft.state
    error = _sync_refusal(state, command)
    if error is not None:
        draft.answer(ticket, SyncAnswer(error))
        return
    member = state.members[command.member_id]
    if state.phase is Phase.STABLE:
        draft.record(MemberSynced(member.member_id, None))
        draft.record(SessionsRefreshed((member.member_id,), draft.now))
        draft.answer(ticket, _assigned(state, member.assignment))
        return
    is_leader = member.member_id == state.leader
    if is_leader and _is_oversized(state, command, draft.rules):
        draft.answer(ticket, SyncAnswer(ErrorCode.INVALID_REQUEST))
        return
    let_go(draft, member, ErrorCode.REBALANCE_IN_PROGRESS)
    draft.record(MemberSynced(member.member_id, ticket))
    if is_leader:
        _settle(draft, dict(command.assignments))


def _sync_refusal(state: GroupState, command: Sync) -> ErrorCode | None:
    if state.phase is Phase.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = fence_generation(state, command.member_id, command.instance_id, command.generation)
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
    """Subscriptions and assignments of one generation, which are kept in one record."""
    subscribed = sum(len(member.subscription(state.protocol)) for member in state.members.values())
    return subscribed + sum(map(len, assigned.values()))


def _settle(draft: Draft, assignments: dict[str, bytes]) -> None:
    """The leader has spoken: keep it, then tell everybody who has asked. Whom it forgot gets nothing to read."""
    state = draft.state
    assert state.protocol is not None and state.leader is not None
    waiting = [member for member in state.members.values() if member.syncing is not None]
    members = tuple(
        settle(member, state.protocol, assignments.get(member.member_id, b"")) for member in state.members.values()
    )
    draft.record(
        GenerationSettled(state.generation, state.protocol_type, state.protocol, state.leader, members, draft.now_wall)
    )
    draft.record(SessionsRefreshed(tuple(member.member_id for member in waiting), draft.now))
    for member in waiting:
        draft.answer(member.syncing, _assigned(state, assignments.get(member.member_id, b"")))


def _assigned(state: GroupState, assignment: bytes) -> SyncAnswer:
    return SyncAnswer(ErrorCode.NONE, state.protocol_type, state.protocol, assignment)


# ── Heartbeat ────────────────────────────────────────────────────────────────────────────────────────


def heartbeat(state: GroupState, command: Heartbeat) -> ErrorCode:
    """The answer; the session is refreshed unless the sender is fenced (REBALANCE_IN_PROGRESS is no fence)."""
    if state.phase is Phase.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = fence_generation(state, command.member_id, command.instance_id, command.generation)
    if error is not None:
        return error
    return ErrorCode.REBALANCE_IN_PROGRESS if state.phase is Phase.PREPARING_REBALANCE else ErrorCode.NONE


# ── LeaveGroup ───────────────────────────────────────────────────────────────────────────────────────


def leave(draft: Draft, ticket: Ticket, command: Leave) -> None:
    before = len(draft.state.members)
    errors = tuple(_leave_one(draft, member_id, instance_id) for member_id, instance_id in command.members)
    draft.answer(ticket, LeaveAnswer(errors))
    _after_departures(draft, before)


def abandon(draft: Draft, command: Abandon) -> None:
    """Kafka keeps a new member whose connection broke for its session; a client that comes back joins again."""
    before = len(draft.state.members)
    member = draft.state.members.get(command.member_id)
    if member is not None and member.new and member.joining is not None:
        remove(draft, member)
    _after_departures(draft, before)


def _leave_one(draft: Draft, member_id: str, instance_id: str | None) -> ErrorCode:
    state = draft.state
    if state.phase is Phase.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if instance_id is None and member_id in state.pending:
        draft.record(MemberIdWithdrawn(member_id))
        return ErrorCode.NONE
    if instance_id is not None and not member_id:  # an administrator knows static members by their instance
        member_id = state.instances.get(instance_id, "")
    error = fence(state, member_id, instance_id)
    if error is not None:
        return error
    remove(draft, state.members[member_id])
    return ErrorCode.NONE


def _after_departures(draft: Draft, members_before: int) -> None:
    if len(draft.state.members) < members_before and draft.state.phase is not Phase.EMPTY:
        rebalance(draft)
    else:
        complete_if_due(draft)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────


def tick(draft: Draft) -> None:
    state = draft.state
    before = len(state.members)
    for member_id in [name for name, deadline in state.pending.items() if deadline <= draft.now]:
        draft.record(MemberIdWithdrawn(member_id))
    silent = [
        member
        for member in state.members.values()
        if member.session_deadline is not None and member.session_deadline <= draft.now and may_expire(member)
    ]
    if state.sync_deadline is not None and state.sync_deadline <= draft.now:
        gone = {member.member_id for member in silent}
        silent += [state.members[member_id] for member_id in sorted(state.unsynced - gone)]
    for member in silent:
        remove(draft, member)
    _after_departures(draft, before)


def resume(draft: Draft) -> None:
    """Members that came back from the journal have one session timeout to show up."""
    draft.record(SessionsRefreshed(tuple(draft.state.members), draft.now))
