"""Machine: the rules of JoinGroup.

A join without a member id comes from a new client or from a static member that has restarted. A join with a member id
comes from a member that takes part in a rebalance, or from a client that uses the id it was just issued. Sources:
KIP-394 (a client must first be issued an id), KIP-345 (static members), KIP-814 (skip the assignment).
"""

from __future__ import annotations

from mqcore.coordination.decision import Ticket
from mqcore.groups.commands import Join, JoinAnswer, Phase
from mqcore.groups.draft import DecisionDraft
from mqcore.groups.facts import (
    GenerationAssigned,
    Member,
    MemberIdIssued,
    MemberIdWithdrawn,
    MemberJoined,
    MemberReplaced,
    SessionsRefreshed,
)
from mqcore.groups.membership import generation_bytes, membership_error
from mqcore.groups.rebalancing import (
    answer_waiting_requests,
    complete_if_due,
    join_answer,
    remove_member,
    start_rebalance,
)
from mqcore.groups.rules import PROTOCOLS_MAX, UNPROVEN_MS_MAX, GroupRules
from mqcore.groups.sessions import to_stored_member
from mqcore.identity import Millis
from mqcore.wire.errors import ErrorCode


def decide_join(draft: DecisionDraft, ticket: Ticket, command: Join) -> None:
    error = _join_error(draft, command)
    if error is not None:
        draft.answer(ticket, JoinAnswer(error, command.member_id))
    elif not _has_room(draft, command):
        _reject_for_size(draft, ticket, command)
    elif command.member_id:
        _join_with_id(draft, ticket, command)
    else:
        _join_without_id(draft, ticket, command)


def _join_error(draft: DecisionDraft, command: Join) -> ErrorCode | None:
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


def _has_room(draft: DecisionDraft, command: Join) -> bool:
    """During a rebalance clients that have joined get the places, members or not. Otherwise members keep theirs."""
    state, max_size = draft.state, draft.rules.max_size
    member = state.members.get(command.member_id)
    if member is None and command.instance_id is not None:
        member = state.members.get(state.instances.get(command.instance_id, ""))
    if member is None and not command.member_id and len(state.issued_ids) >= draft.rules.max_issued_ids:
        return False
    if state.phase is Phase.PREPARING_REBALANCE:
        return (member is not None and member.join_ticket is not None) or len(state.joined()) < max_size
    return member is not None or len(state.members) + len(state.issued_ids.keys() - {command.member_id}) < max_size


def _reject_for_size(draft: DecisionDraft, ticket: Ticket, command: Join) -> None:
    draft.answer(ticket, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED, command.member_id))
    if command.member_id in draft.state.issued_ids:
        draft.record(MemberIdWithdrawn(command.member_id))
    member = draft.state.members.get(command.member_id)
    if member is not None:
        remove_member(draft, member, ErrorCode.GROUP_MAX_SIZE_REACHED)
    complete_if_due(draft)


def _join_without_id(draft: DecisionDraft, ticket: Ticket, command: Join) -> None:
    if command.instance_id is not None and command.instance_id in draft.state.instances:
        _replace_static_member(draft, ticket, command)
    elif command.instance_id is None and command.requires_issued_id:
        wait_ms = min(command.session_timeout_ms, UNPROVEN_MS_MAX)
        draft.record(MemberIdIssued(command.fresh_member_id, Millis(draft.now + wait_ms)))
        draft.answer(ticket, JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, command.fresh_member_id))
    else:
        _add_member(draft, ticket, command, command.fresh_member_id)


def _join_with_id(draft: DecisionDraft, ticket: Ticket, command: Join) -> None:
    state = draft.state
    if command.member_id in state.issued_ids and command.instance_id is None:
        _add_member(draft, ticket, command, command.member_id)
        return
    error = membership_error(state, command.member_id, command.instance_id)
    if error is not None:
        draft.answer(ticket, JoinAnswer(error, command.member_id))
        return
    member = state.members[command.member_id]
    if _only_repeats(draft, member, command):
        draft.record(SessionsRefreshed((member.member_id,), draft.now))
        draft.answer(ticket, join_answer(state, member.member_id))
        return
    answer_waiting_requests(draft, member, ErrorCode.REBALANCE_IN_PROGRESS)
    draft.record(MemberJoined(_with_latest_join(member, ticket, command), command.protocol_type))
    start_rebalance(draft)


def _only_repeats(draft: DecisionDraft, member: Member, command: Join) -> bool:
    """Whether the member only needs its answer once more, for example because the first one was lost.

    A leader that joins a stable group again wants a rebalance, because the topics may have changed.
    """
    phase = draft.state.phase
    is_leader = member.member_id == draft.state.leader
    return member.protocols == command.protocols and (
        phase is Phase.COMPLETING_REBALANCE or (phase is Phase.STABLE and not is_leader)
    )


def _add_member(draft: DecisionDraft, ticket: Ticket, command: Join, member_id: str) -> None:
    member = Member(
        member_id,
        command.instance_id,
        command.client_id,
        command.client_host,
        command.session_timeout_ms,
        command.rebalance_timeout_ms,
        command.protocols,
        session_deadline=Millis(draft.now + draft.rules.new_member_join_timeout_ms),
        join_ticket=ticket,
        is_new=True,
    )
    draft.record(MemberJoined(member, command.protocol_type))
    start_rebalance(draft)


def _replace_static_member(draft: DecisionDraft, ticket: Ticket, command: Join) -> None:
    """A static member has restarted: it gets a new id, and the old id is fenced.

    A stable group continues without a rebalance, as in Kafka even if the member now subscribes to other topics. It gets
    those in the next rebalance.
    """
    state = draft.state
    assert command.instance_id is not None
    old = state.members[state.instances[command.instance_id]]
    old_leader = state.leader
    answer_waiting_requests(draft, old, ErrorCode.FENCED_INSTANCE_ID)
    restarted = _with_latest_join(old, ticket, command)._replace(
        member_id=command.fresh_member_id,
        client_id=command.client_id,
        client_host=command.client_host,
    )
    draft.record(MemberReplaced(old.member_id, restarted._replace(join_ticket=None)))
    draft.record(SessionsRefreshed((restarted.member_id,), draft.now))
    if state.phase is Phase.STABLE and state.elect_protocol() == state.protocol and _fits_into_a_record(draft):
        _record_generation_again(draft)
        answer = join_answer(state, restarted.member_id)
        if command.can_skip_assignment:
            answer = answer._replace(skip_assignment=restarted.member_id == state.leader)
        else:
            # Before version 9 a leader always sends an assignment, which a stable group ignores. So the answer names
            # the old id as the leader.
            answer = answer._replace(leader=old_leader or "", members=())
        draft.answer(ticket, answer)
    else:
        draft.record(MemberJoined(restarted, command.protocol_type))
        start_rebalance(draft)


def _fits_into_a_record(draft: DecisionDraft) -> bool:
    assigned = {member.member_id: member.assignment for member in draft.state.members.values()}
    return generation_bytes(draft.state, assigned) <= draft.rules.max_generation_bytes


def _record_generation_again(draft: DecisionDraft) -> None:
    """The generation is the same, but one member has another id, and the journal has to know that."""
    state = draft.state
    assert state.protocol is not None and state.leader is not None
    members = tuple(to_stored_member(member, state.protocol, member.assignment) for member in state.members.values())
    draft.record(
        GenerationAssigned(state.generation, state.protocol_type, state.protocol, state.leader, members, draft.now_wall)
    )


def _with_latest_join(member: Member, ticket: Ticket, command: Join) -> Member:
    return member._replace(
        protocols=command.protocols,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        join_ticket=ticket,
        sync_ticket=None,
        is_new=False,
    )
