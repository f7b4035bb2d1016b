"""SyncGroup, Heartbeat, LeaveGroup, sessions, and a restart of the coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mqcore.groups.commands import Describe, Phase, Resume, Sync
from mqcore.groups.facts import Member
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.cast import AT_ONCE, SESSION_MS, Group, subscription


def test_everybody_gets_the_part_the_leader_gave_it() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.rejoin(leader, follower)
    waiting = group.sync(follower)
    assert not waiting.given
    answer = group.sync(leader, {leader: b"0,1", follower: b"2"}).answer
    assert (answer.assignment, answer.protocol_type, answer.protocol) == (b"0,1", "consumer", "range")
    assert waiting.answer.assignment == b"2"
    assert group.is_in(Phase.STABLE)


def test_whom_the_leader_forgot_gets_nothing_to_read() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.rejoin(leader, follower)
    group.sync(leader, {leader: b"all"})
    assert group.sync(follower).answer.assignment == b""


def test_a_sync_in_a_stable_group_is_answered_at_once() -> None:
    group = Group()
    leader, follower = group.stable(2)
    assert group.sync(follower).answer.assignment == follower.encode()
    assert group.sync(leader, {follower: b"other"}).answer.assignment == leader.encode()


def test_a_sync_of_another_generation_is_refused() -> None:
    group = Group()
    leader = group.stable()[0]
    assert group.sync(leader, generation=0).answer.error is ErrorCode.ILLEGAL_GENERATION
    assert group.sync(leader, generation=2).answer.error is ErrorCode.ILLEGAL_GENERATION


def test_a_sync_in_a_rebalance_sends_the_member_back_to_join() -> None:
    group = Group()
    leader = group.stable()[0]
    group.join()
    assert group.sync(leader).answer.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_of_a_stranger_is_refused() -> None:
    group = Group()
    assert group.sync("stranger").answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    group.stable()
    assert group.sync("stranger").answer.error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("protocol_type", "protocol"), [("connect", "range"), ("consumer", "sticky")])
def test_a_sync_for_another_protocol_is_refused(protocol_type: str, protocol: str) -> None:
    group = Group()
    leader = group.stable()[0]
    command = Sync(leader, 1, None, protocol_type, protocol)
    assert group.submit(command).answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.submit(replace(command, protocol_type="consumer", protocol="range")).answer.error is ErrorCode.NONE


def test_a_second_sync_of_the_same_member_releases_the_first() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.rejoin(leader, follower)
    first, second = group.sync(follower), group.sync(follower)
    assert first.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    group.sync(leader, {follower: b"part"})
    assert second.answer.assignment == b"part"


def test_an_assignment_cannot_be_larger_than_its_limits() -> None:
    group = Group(replace(AT_ONCE, max_member_bytes=100, max_generation_bytes=150))
    leader = group.join().answer.member_id
    assert group.sync(leader, {leader: bytes(101)}).answer.error is ErrorCode.INVALID_REQUEST
    assert group.sync(leader, {leader: bytes(80), "other": bytes(80)}).answer.error is ErrorCode.INVALID_REQUEST
    assert group.sync(leader, {leader: bytes(100)}).answer.error is ErrorCode.NONE


# ── heartbeats and sessions ──────────────────────────────────────────────────────────────────────────


def test_a_member_lives_as_long_as_it_shows_a_sign_of_life_each_session() -> None:
    group = Group()
    member = group.stable()[0]
    for _ in range(5):
        group.advance(SESSION_MS - 1)
        assert group.heartbeat(member) is ErrorCode.NONE
    group.advance(SESSION_MS)
    assert group.heartbeat(member) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("sign", ["heartbeat", "sync", "commit", "join"])
def test_heartbeats_are_not_the_only_sign_of_life(sign: str) -> None:
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


def test_a_jump_of_the_wall_clock_expires_nobody() -> None:
    group = Group()
    member = group.stable()[0]
    group.clock.wall_ahead_ms += 24 * 3_600_000
    group.advance(SESSION_MS - 1)
    assert group.heartbeat(member) is ErrorCode.NONE


def test_a_heartbeat_of_another_generation_is_refused_and_no_sign_of_life() -> None:
    group = Group()
    member = group.stable()[0]
    group.advance(SESSION_MS - 1)
    assert group.heartbeat(member, 0) is ErrorCode.ILLEGAL_GENERATION
    group.advance(1)
    assert not group.state.members


def test_heartbeats_are_welcome_while_the_assignment_is_made() -> None:
    group = Group()
    member = group.join().answer.member_id
    assert group.is_in(Phase.COMPLETING_REBALANCE)
    assert group.heartbeat(member) is ErrorCode.NONE


def test_a_heartbeat_to_a_group_that_is_not_there_is_from_an_unknown_member() -> None:
    group = Group()
    assert group.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.state.is_blank


# ── leaving ──────────────────────────────────────────────────────────────────────────────────────────


def test_members_leave_together_with_an_answer_each() -> None:
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


def test_a_member_that_leaves_while_it_waits_is_let_go() -> None:
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


def test_the_leader_that_leaves_is_followed_by_another() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.leave(leader)
    assert group.join(follower).answer.leader == follower


# ── a restart of the coordinator ─────────────────────────────────────────────────────────────────────


def test_members_and_their_generation_survive_a_restart() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.restart()
    group.submit(Resume())
    assert group.heartbeat(follower, 2) is ErrorCode.NONE
    assert group.sync(leader).answer.assignment == leader.encode()


def test_what_members_said_last_is_what_survives_a_restart() -> None:
    """Two generations are in the journal; the second one counts, in all that a member said."""
    group = Group()
    old = (("sticky", b"old"), ("range", b""))
    member = group.join(protocols=old, session_ms=20_000).answer.member_id
    group.sync(member)
    new = (("range", subscription("orders", "payments")),)
    newcomer = group.join(protocols=new)
    group.join(member, protocols=(*new, *old), session_ms=30_000)
    group.sync(newcomer.answer.member_id)
    group.sync(member)
    assert group.state.protocol == "range"
    group.restart()
    restored = group.state.members[member]
    assert (restored.protocols, restored.session_timeout_ms) == (new, 30_000)


def test_after_a_restart_members_have_one_session_to_show_up() -> None:
    group = Group()
    group.stable(2)
    group.restart()
    group.submit(Resume())
    group.advance(SESSION_MS - 1)
    assert len(group.state.members) == 2
    group.advance(1)
    assert group.is_in(Phase.EMPTY)


def test_static_members_are_still_static_after_a_restart() -> None:
    group = Group()
    _, old = group.stable(instances=("till-1", "till-2"))
    group.restart()
    group.submit(Resume())
    assert group.join(instance="till-2").given
    assert group.is_in(Phase.STABLE)
    assert group.heartbeat(old, instance="till-2") is ErrorCode.FENCED_INSTANCE_ID


def test_a_rebalance_that_was_under_way_at_the_restart_begins_anew() -> None:
    group = Group()
    leader, _ = group.stable(2)
    group.rejoin(leader)
    group.restart()
    group.submit(Resume())
    assert group.is_in(Phase.STABLE)
    assert group.state.generation == 2


# ── describing ───────────────────────────────────────────────────────────────────────────────────────


def test_a_group_that_is_not_there_is_described_as_dead() -> None:
    assert Group().submit(Describe()).answer.phase is Phase.DEAD


def test_a_stable_group_is_described_with_its_protocol() -> None:
    group = Group()
    ids = group.stable(2)
    description = group.submit(Describe()).answer
    assert (description.phase, description.protocol_type, description.protocol) == (Phase.STABLE, "consumer", "range")
    assert [member.member_id for member in description.members] == ids


def test_the_protocol_of_a_group_in_a_rebalance_means_nothing() -> None:
    group = Group()
    group.stable()
    group.join()
    assert group.submit(Describe()).answer.protocol == ""


class Watched(dict[str, Member]):
    """Members that count how often all of them are looked at."""

    rounds = 0

    def values(self) -> Any:
        self.rounds += 1
        return super().values()

    def items(self) -> Any:
        self.rounds += 1
        return super().items()

    def __iter__(self) -> Iterator[str]:
        self.rounds += 1
        return super().__iter__()


def test_a_heartbeat_looks_at_no_other_member() -> None:
    group = Group()
    group.without_checks()
    members = group.stable(20)
    group.state.members = watched = Watched(group.state.members)
    group.heartbeat(members[0])
    watched.rounds = 0
    for member in members * 5:
        group.advance(10)
        assert group.heartbeat(member) is ErrorCode.NONE
    assert watched.rounds == 0


def test_a_silent_member_among_many_that_send_heartbeats_is_noticed_in_time() -> None:
    group = Group()
    silent, *others = group.stable(5)
    for _ in range(9):
        group.advance(SESSION_MS // 10)
        for member in others:
            group.heartbeat(member)
    group.advance(SESSION_MS // 10 - 1)
    assert silent in group.state.members
    group.advance(1)
    assert set(group.state.members) == set(others)
