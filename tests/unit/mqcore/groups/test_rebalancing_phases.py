"""The first rebalance of an empty group, the wait for the leader, and a journal that fails."""

from __future__ import annotations

from mqcore.groups.commands import Phase
from mqcore.groups.facts import GenerationAssigned
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.group_driver import AT_ONCE, REBALANCE_MS, SESSION_MS, Group

PATIENT = AT_ONCE._replace(initial_rebalance_delay_ms=3_000)


# ── the first rebalance of an empty group ────────────────────────────────────────────────────────────


def test_the_first_rebalance_waits_for_more_members() -> None:
    group = Group(PATIENT)
    first = group.join()
    group.advance(2_999)
    second = group.join()
    assert not first.given
    group.advance(3_001)
    assert first.answer.generation == second.answer.generation == 1


def test_the_first_rebalance_is_extended_while_members_arrive_up_to_the_rebalance_timeout() -> None:
    group = Group(PATIENT)
    first = group.join(rebalance_ms=10_000)
    for _ in range(4):
        group.advance(2_900)
        if not first.given:
            group.join(rebalance_ms=10_000)
    assert group.clock.monotonic_ms == 1_011_600
    assert first.answer.generation == 1


def test_without_new_members_the_first_rebalance_ends_after_one_delay() -> None:
    group = Group(PATIENT)
    first = group.join()
    group.advance(2_999)
    assert not first.given
    group.advance(3_001)
    assert first.given


def test_a_member_that_leaves_during_the_first_rebalance_leaves_an_empty_group() -> None:
    group = Group(PATIENT)
    waiting = group.join()
    member = next(iter(group.state.members))
    group.leave(member)
    assert waiting.answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    group.advance(6_000)
    assert group.is_in(Phase.EMPTY)


# ── waiting for the leader ───────────────────────────────────────────────────────────────────────────


def test_a_member_that_does_not_sync_in_time_is_removed() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.rejoin(leader, follower)
    syncing = group.sync(follower)
    for _ in range(REBALANCE_MS // 5_000):
        group.heartbeat(leader)
        group.advance(5_000)
    assert syncing.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(group.state.members) == [follower]


def test_a_member_that_syncs_after_the_leader_gets_its_assignment() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.rejoin(leader, follower)
    group.sync(leader, {follower: b"part"})
    group.sync(follower)
    for _ in range(REBALANCE_MS // 5_000 + 1):
        assert group.heartbeat(leader) is group.heartbeat(follower) is ErrorCode.NONE
        group.advance(5_000)


def test_a_member_that_waits_for_the_leader_does_not_expire_during_or_right_after_the_wait() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.rejoin(leader, follower)
    group.sync(follower)
    for _ in range(6):
        group.heartbeat(leader)
        group.advance(SESSION_MS // 2)
    group.leave(leader)
    group.advance(SESSION_MS - 1)
    assert group.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_new_member_interrupts_the_wait_for_the_assignment() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.rejoin(leader, follower)
    syncing = group.sync(follower)
    group.join()
    assert syncing.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.is_in(Phase.PREPARING_REBALANCE)


def test_only_assigned_generations_and_empty_groups_are_kept_in_the_journal() -> None:
    group = Group()
    leader, _ = group.stable(2)
    group.join()
    group.heartbeat(leader)
    assert [type(fact) for fact in group.journal.kept] == [GenerationAssigned]


# ── a journal that fails ─────────────────────────────────────────────────────────────────────────────


def test_an_assignment_that_cannot_be_journaled_reaches_no_member_and_can_be_sent_again() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.rejoin(leader, follower)
    waiting = group.sync(follower)
    group.journal.broken = True
    refused = group.sync(leader, {follower: b"part"})
    assert isinstance(refused.answers[0], Exception)
    assert not waiting.given
    group.journal.broken = False
    assert group.sync(leader, {follower: b"part"}).answer.error is ErrorCode.NONE
    assert waiting.answer.assignment == b"part"


def test_members_get_an_assignment_only_when_it_is_committed() -> None:
    group = Group()
    leader = group.join().answer.member_id
    group.journal.hold()
    syncing = group.sync(leader, {leader: b"all"})
    assert group.is_in(Phase.STABLE)
    assert not syncing.given
    group.journal.release()
    assert syncing.answer.assignment == b"all"
