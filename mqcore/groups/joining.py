"""Machine: the rules of JoinGroup.

Two ways in: without a member id (a new client, or a static one that has restarted) and with one (coming back in a
rebalance, or with the id just issued). Sources: KIP-394 (ids first), KIP-345 (static members), KIP-814 (skip the
assignment).
"""

from __future__ import annotations

from dataclasses import replace

from mqcore.coordination.decision import Ticket
from mqcore.groups.commands import Join, JoinAnswer, Phase
from mqcore.groups.draft import Draft
from mqcore.groups.facts import (
    GenerationSettled,
    Member,
    MemberIdIssued,
    MemberIdWithdrawn,
    MemberJoined,
    MemberReplaced,
    SessionsRefreshed,
)
from mqcore.groups.membership import fence, generation_bytes
from mqcore.groups.rebalancing import complete_if_due, current_generation, let_go, rebalance, remove
from mqcore.groups.rules import PROTOCOLS_MAX, UNPROVEN_MS_MAX, GroupRules
from mqcore.groups.state import settle
from mqcore.identity import Millis
from mqcore.wire.errors import ErrorCode


def join(draft: Draft, ticket: Ticket, command: Join) -> None:
    error = _refusal(draft, command)
    if error is not None:
        draft.answer(ticket, JoinAnswer(error, command.member_id))
    elif not _has_room(draft, command):
        _turn_away(draft, ticket, command)
    elif command.member_id:
        _join_known(draft, ticket, command)
    else:
        _join_unknown(draft, ticket, command)


def _refusal(draft: Draft, command: Join) -> ErrorCode | None:
    state, rules = draft.state, draft.rules
    if state.phase is Phase.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not rules.min_session_timeout_ms <= command.session_timeout_ms <= rules.max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if _is_oversized(command, rules):
        return ErrorCode.INVALID_REQUEST
    if command.member_id and state.is_blank:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not state.supports(command.protocol_type, [name for name, _ in command.protocols]):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return None


def _is_oversized(command: Join, rules: GroupRules) -> bool:
    names = [command.protocol_type, command.instance_id or "", *(name for name, _ in command.protocols)]
    return (
        any(len(name.encode()) > rules.max_name_bytes for name in names)
        or sum(len(metadata) for _, metadata in command.protocols) > rules.max_member_bytes
        or len(command.protocols) > PROTOCOLS_MAX
    )


def _has_room(draft: Draft, command: Join) -> bool:
    """In a rebalance room is for those who are there in time, members or not; otherwise members keep theirs."""
    state, max_size = draft.state, draft.rules.max_size
    member = state.members.get(command.member_id)
    if member is None and command.instance_id is not None:
        member = state.members.get(state.instances.get(command.instance_id, ""))
    if member is None and not command.member_id and len(state.pending) >= draft.rules.max_pending:
        return False
    if state.phase is Phase.PREPARING_REBALANCE:
        return (member is not None and member.joining is not None) or len(state.joined()) < max_size
    return member is not None or len(state.members) + len(state.pending.keys() - {command.member_id}) < max_size


def _turn_away(draft: Draft, ticket: Ticket, command: Join) -> None:
    draft.answer(ticket, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED, command.member_id))
    if command.member_id in draft.state.pending:
        draft.record(MemberIdWithdrawn(command.member_id))
    member = draft.state.members.get(command.member_id)
    if member is not None:
        remove(draft, member, ErrorCode.GROUP_MAX_SIZE_REACHED)
    complete_if_due(draft)


def _join_unknown(draft: Draft, ticket: Ticket, command: Join) -> None:
    state = draft.state
    if command.instance_id is not None and command.instance_id in state.instances:
        _replace_static(draft, ticket, command)
    elif command.instance_id is None and command.id_required:
        wait_ms = min(command.session_timeout_ms, UNPROVEN_MS_MAX)
        draft.record(MemberIdIssued(command.fresh_member_id, Millis(draft.now + wait_ms)))
        draft.answer(ticket, JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, command.fresh_member_id))
    else:
        _add(draft, ticket, command, command.fresh_member_id)


def _join_known(draft: Draft, ticket: Ticket, command: Join) -> None:
    state = draft.state
    if command.member_id in state.pending and command.instance_id is None:
        _add(draft, ticket, command, command.member_id)
        return
    error = fence(state, command.member_id, command.instance_id)
    if error is not None:
        draft.answer(ticket, JoinAnswer(error, command.member_id))
        return
    member = state.members[command.member_id]
    unchanged = member.protocols == command.protocols
    is_leader = member.member_id == state.leader
    # The answer to its join was lost, or the member is only asking again. A leader that asks again wants a rebalance.
    if unchanged and (state.phase is Phase.COMPLETING_REBALANCE or (state.phase is Phase.STABLE and not is_leader)):
        draft.record(SessionsRefreshed((member.member_id,), draft.now))
        draft.answer(ticket, current_generation(state, member.member_id))
        return
    let_go(draft, member, ErrorCode.REBALANCE_IN_PROGRESS)
    draft.record(MemberJoined(_said_now(member, ticket, command), command.protocol_type))
    rebalance(draft)


def _add(draft: Draft, ticket: Ticket, command: Join, member_id: str) -> None:
    member = Member(
        member_id,
        command.instance_id,
        command.client_id,
        command.client_host,
        command.session_timeout_ms,
        command.rebalance_timeout_ms,
        command.protocols,
        session_deadline=Millis(draft.now + draft.rules.new_member_join_timeout_ms),
        joining=ticket,
        new=True,
    )
    draft.record(MemberJoined(member, command.protocol_type))
    rebalance(draft)


def _replace_static(draft: Draft, ticket: Ticket, command: Join) -> None:
    """A static member has restarted. Its old self is fenced; a stable group goes on as it is.

    As in Kafka also if the member names other topics: it gets them in the next rebalance, whatever causes that.
    """
    state = draft.state
    assert command.instance_id is not None
    old = state.members[state.instances[command.instance_id]]
    old_leader = state.leader
    let_go(draft, old, ErrorCode.FENCED_INSTANCE_ID)
    said_now = replace(
        _said_now(old, ticket, command),
        member_id=command.fresh_member_id,
        client_id=command.client_id,
        client_host=command.client_host,
    )
    draft.record(MemberReplaced(old.member_id, replace(said_now, joining=None)))
    draft.record(SessionsRefreshed((said_now.member_id,), draft.now))
    if state.phase is Phase.STABLE and state.elect_protocol() == state.protocol and _fits_a_record(draft):
        _settle_again(draft)
        answer = current_generation(state, said_now.member_id)
        if command.can_skip_assignment:
            answer = replace(answer, skip_assignment=said_now.member_id == state.leader)
        else:
            # An old client that heard it leads would assign, and a stable group would not listen: name the old id.
            answer = replace(answer, leader=old_leader or "", members=())
        draft.answer(ticket, answer)
    else:
        draft.record(MemberJoined(said_now, command.protocol_type))
        rebalance(draft)


def _fits_a_record(draft: Draft) -> bool:
    assigned = {member.member_id: member.assignment for member in draft.state.members.values()}
    return generation_bytes(draft.state, assigned) <= draft.rules.max_generation_bytes


def _settle_again(draft: Draft) -> None:
    """The same generation, but one of its members has another id now: that is kept, too."""
    state = draft.state
    assert state.protocol is not None and state.leader is not None
    members = tuple(settle(member, state.protocol, member.assignment) for member in state.members.values())
    draft.record(
        GenerationSettled(state.generation, state.protocol_type, state.protocol, state.leader, members, draft.now_wall)
    )


def _said_now(member: Member, ticket: Ticket, command: Join) -> Member:
    return replace(
        member,
        protocols=command.protocols,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        joining=ticket,
        syncing=None,
        new=False,
    )
