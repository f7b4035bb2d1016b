"""SyncGroup, Heartbeat, LeaveGroup, and sessions."""

from __future__ import annotations

import pytest

from mqcore.groups.commands import Phase, Sync
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.group_driver import AT_ONCE, SESSION_MS, Group


def test_every_member_gets_the_part_that_the_leader_assigned() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.rejoin(leader, follower)
    waiting = group.sync(follower)
    assert not waiting.given
    answer = group.sync(leader, {leader: b"0,1", follower: b"2"}).answer
    assert (answer.assignment, answer.protocol_type, answer.protocol) == (b"0,1", "consumer", "range")
    assert waiting.answer.assignment == b"2"
    assert group.is_in(Phase.STABLE)


def test_a_member_that_the_leader_omitted_gets_an_empty_assignment() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.rejoin(leader, follower)
    group.sync(leader, {leader: b"all"})
    assert group.sync(follower).answer.assignment == b""


def test_a_sync_in_a_stable_group_is_answered_immediately() -> None:
    group = Group()
    leader, follower = group.stable(2)
    assert group.sync(follower).answer.assignment == follower.encode()
    assert group.sync(leader, {follower: b"other"}).answer.assignment == leader.encode()


def test_a_sync_of_another_generation_is_rejected() -> None:
    group = Group()
    leader = group.stable()[0]
    assert group.sync(leader, generation=0).answer.error is ErrorCode.ILLEGAL_GENERATION
    assert group.sync(leader, generation=2).answer.error is ErrorCode.ILLEGAL_GENERATION


def test_a_sync_during_a_rebalance_tells_the_member_to_join_again() -> None:
    group = Group()
    leader = group.stable()[0]
    group.join()
    assert group.sync(leader).answer.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_of_an_unknown_member_is_rejected() -> None:
    group = Group()
    assert group.sync("stranger").answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    group.stable()
    assert group.sync("stranger").answer.error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("protocol_type", "protocol"), [("connect", "range"), ("consumer", "sticky")])
def test_a_sync_for_another_protocol_is_rejected(protocol_type: str, protocol: str) -> None:
    group = Group()
    leader = group.stable()[0]
    command = Sync(leader, 1, None, protocol_type, protocol)
    assert group.submit(command).answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.submit(command._replace(protocol_type="consumer", protocol="range")).answer.error is ErrorCode.NONE


def test_a_second_sync_of_a_member_answers_its_first_one() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.rejoin(leader, follower)
    first, second = group.sync(follower), group.sync(follower)
    assert first.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    group.sync(leader, {follower: b"part"})
    assert second.answer.assignment == b"part"


def test_the_size_of_an_assignment_is_limited() -> None:
    group = Group(AT_ONCE._replace(max_member_bytes=100, max_generation_bytes=150))
    leader = group.join().answer.member_id
    assert group.sync(leader, {leader: bytes(101)}).answer.error is ErrorCode.INVALID_REQUEST
    assert group.sync(leader, {leader: bytes(80), "other": bytes(80)}).answer.error is ErrorCode.INVALID_REQUEST
    assert group.sync(leader, {leader: bytes(100)}).answer.error is ErrorCode.NONE


# ── heartbeats and sessions ──────────────────────────────────────────────────────────────────────────


def test_a_member_stays_while_it_sends_a_heartbeat_in_each_session_timeout() -> None:
    group = Group()
    member = group.stable()[0]
    for _ in range(5):
        group.advance(SESSION_MS - 1)
        assert group.heartbeat(member) is ErrorCode.NONE
    group.advance(SESSION_MS)
    assert group.heartbeat(member) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("sign", ["heartbeat", "sync", "commit", "join"])
def test_joins_syncs_and_commits_refresh_the_session_as_well(sign: str) -> None:
    group = Group()
    _, member = group.stable(2)
    group.advance(SESSION_MS - 1)
    match sign:
        case "heartbeat":
            group.heartbeat(member)
        case "sync":
            group.sync(member)
        case "commit":
            group.commit(member, 2)
        case "join":
            group.join(member)
    group.advance(1)
    assert list(group.state.members) == [member]


def test_a_jump_of_the_wall_clock_expires_no_session() -> None:
    group = Group()
    member = group.stable()[0]
    group.clock.wall_ahead_ms += 24 * 3_600_000
    group.advance(SESSION_MS - 1)
    assert group.heartbeat(member) is ErrorCode.NONE


def test_a_heartbeat_of_another_generation_is_rejected_and_refreshes_no_session() -> None:
    group = Group()
    member = group.stable()[0]
    group.advance(SESSION_MS - 1)
    assert group.heartbeat(member, 0) is ErrorCode.ILLEGAL_GENERATION
    group.advance(1)
    assert not group.state.members


def test_heartbeats_are_accepted_while_the_leader_assigns() -> None:
    group = Group()
    member = group.join().answer.member_id
    assert group.is_in(Phase.COMPLETING_REBALANCE)
    assert group.heartbeat(member) is ErrorCode.NONE


def test_a_heartbeat_to_a_missing_group_gets_unknown_member() -> None:
    group = Group()
    assert group.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.state.is_blank


# ── leaving ──────────────────────────────────────────────────────────────────────────────────────────


def test_members_that_leave_in_one_request_get_an_error_each() -> None:
    group = Group()
    first, second, third = group.stable(3)
    answer = group.leave(second, "stranger", ("", "nobody"), third)
    assert answer.errors == (
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    )
    assert list(group.state.members) == [first]


def test_a_member_that_leaves_while_it_waits_gets_an_answer() -> None:
    group = Group()
    leader, follower = group.stable(2)
    joining = group.join(leader)
    group.leave(leader)
    assert joining.answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    group.rejoin(follower)
    newcomer = group.join()
    group.rejoin(follower)
    syncing = group.sync(newcomer.answer.member_id)
    group.leave(newcomer.answer.member_id)
    assert syncing.answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_when_the_leader_leaves_another_member_leads() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.leave(leader)
    assert group.join(follower).answer.leader == follower
