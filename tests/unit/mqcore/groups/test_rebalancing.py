"""How a rebalance begins and ends: who is waited for, and for how long."""

from __future__ import annotations

from dataclasses import replace

from mqcore.groups.commands import Phase
from mqcore.groups.facts import GenerationSettled, GroupEmptied
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.cast import AT_ONCE, REBALANCE_MS, SESSION_MS, Group

PATIENT = replace(AT_ONCE, initial_rebalance_delay_ms=3_000)


def test_a_rebalance_ends_as_soon_as_all_members_have_joined() -> None:
    group = Group()
    leader, follower = group.stable(2)
    newcomer = group.join()
    assert not group.join(leader).given
    assert group.join(follower).given
    assert newcomer.answer.generation == 3


def test_a_member_that_does_not_join_in_time_is_out() -> None:
    group = Group()
    leader, follower = group.stable(2)
    newcomer = group.join(session_ms=SESSION_MS)
    group.join(follower)
    while group.clock.monotonic_ms < 1_000_000 + REBALANCE_MS - 5_000:
        group.advance(5_000)
        assert group.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS, "alive, but busy with its records"
    assert not newcomer.given
    group.advance(5_000)
    assert newcomer.answer.generation == 3
    assert leader not in group.state.members
    assert group.heartbeat(leader) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_join_in_time_is_followed_by_one_that_did() -> None:
    group = Group()
    _, follower = group.stable(2)
    waiting = group.join(follower, protocols=(("range", b"other"),))
    group.advance(REBALANCE_MS)
    assert waiting.answer.leader == follower


def test_a_member_that_leaves_completes_the_join_of_the_others() -> None:
    group = Group()
    leader, follower = group.stable(2)
    waiting = group.join(leader)
    assert not waiting.given
    group.leave(follower)
    assert waiting.answer.generation == 3


def test_a_member_that_falls_silent_completes_the_join_of_the_others() -> None:
    group = Group()
    leader, _ = group.stable(2)
    waiting = group.join(leader)
    group.advance(SESSION_MS)
    assert waiting.answer.generation == 3
    assert len(group.state.members) == 1


def test_an_issued_id_is_waited_for_until_its_session_is_over() -> None:
    group = Group()
    leader = group.stable()[0]
    group.join(id_required=True)
    waiting = group.join(leader)
    assert not waiting.given
    group.advance(SESSION_MS)
    assert waiting.answer.generation == 2


def test_an_issued_id_that_is_given_back_is_not_waited_for() -> None:
    group = Group()
    leader = group.stable()[0]
    issued = group.join(id_required=True).answer.member_id
    waiting = group.join(leader)
    assert group.leave(issued).errors == (ErrorCode.NONE,)
    assert waiting.given


def test_giving_back_an_id_disturbs_no_stable_group() -> None:
    group = Group()
    group.stable()
    issued = group.join(id_required=True).answer.member_id
    group.leave(issued)
    assert group.is_in(Phase.STABLE)


def test_who_waits_for_others_in_join_does_not_expire() -> None:
    group = Group()
    leader, follower = group.stable(2)
    waiting = group.join(leader)
    for _ in range(10):
        group.advance(SESSION_MS // 2)
        group.heartbeat(follower)
    assert not waiting.given
    assert leader in group.state.members


def test_a_newcomer_that_waits_too_long_is_taken_for_gone() -> None:
    group = Group(replace(AT_ONCE, new_member_join_timeout_ms=20_000))
    member = group.stable()[0]
    newcomer = group.join()
    for _ in range(4):
        group.heartbeat(member)
        group.advance(5_000)
    assert newcomer.answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(group.state.members) == [member]


def test_the_last_member_to_leave_leaves_an_empty_group_with_a_generation_of_its_own() -> None:
    group = Group()
    member = group.stable()[0]
    group.leave(member)
    assert (group.state.phase, group.state.generation) == (Phase.EMPTY, 2)
    assert group.journal.kept[-1] == GroupEmptied(2, "consumer", group.clock.wall_ms())


def test_a_group_that_expires_as_a_whole_is_empty() -> None:
    group = Group()
    group.stable(3)
    group.advance(SESSION_MS)
    assert group.is_in(Phase.EMPTY)
    assert group.clock.next_timer_ms is None, "nothing is left to wait for"


def test_static_members_that_are_away_keep_their_place_for_a_session() -> None:
    group = Group()
    leader, _ = group.stable(instances=("till-1", "till-2"))
    group.join(leader, instance="till-1", session_ms=30_000, rebalance_ms=5_000)
    group.advance(SESSION_MS - 1)
    assert "till-2" in group.state.instances
    group.advance(1)
    assert "till-2" not in group.state.instances


def test_a_static_member_that_is_away_is_assigned_to_like_the_others() -> None:
    group = Group()
    leader, away = group.stable(instances=("till-1", "till-2"))
    waiting = group.join(leader, instance="till-1", rebalance_ms=7_000)
    group.advance(3_000)
    group.heartbeat(away, instance="till-2")
    group.advance(REBALANCE_MS)
    assert waiting.given


def test_a_leader_that_comes_back_finds_another_one_leading() -> None:
    group = Group()
    group.stable(instances=("till-1", "till-2"))
    first, second = group.state.instances["till-1"], group.state.instances["till-2"]
    waiting = group.join(second, instance="till-2", protocols=(("range", b"other"),))
    for _ in range(REBALANCE_MS // 5_000):
        group.heartbeat(first, instance="till-1")
        group.advance(5_000)
    assert waiting.answer.leader == second
    group.join(first, instance="till-1", protocols=(("range", b"other"),))
    again = group.join(second, instance="till-2", protocols=(("range", b"other"),))
    assert again.answer.leader == second


def test_a_rebalance_of_static_members_that_are_all_away_goes_on_until_their_sessions_end() -> None:
    group = Group()
    first, second = group.stable(instances=("till-1", "till-2"))
    group.join(instance="till-3", rebalance_ms=1_000)
    group.leave(("", "till-3"))
    assert group.is_in(Phase.PREPARING_REBALANCE)
    group.advance(SESSION_MS)
    assert group.is_in(Phase.EMPTY)
    assert first not in group.state.members
    assert second not in group.state.members


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    group = Group()
    leader, _ = group.stable(instances=("till-1", "till-2"))
    assert group.leave(("", "till-2")).errors == (ErrorCode.NONE,)
    assert group.is_in(Phase.PREPARING_REBALANCE)
    assert list(group.state.members) == [leader]


# ── the first rebalance of an empty group ────────────────────────────────────────────────────────────


def test_an_empty_group_waits_a_moment_for_more_members() -> None:
    group = Group(PATIENT)
    first = group.join()
    group.advance(2_999)
    second = group.join()
    assert not first.given
    group.advance(3_001)
    assert first.answer.generation == second.answer.generation == 1


def test_the_moment_is_longer_while_members_keep_coming_but_not_longer_than_a_rebalance() -> None:
    group = Group(PATIENT)
    first = group.join(rebalance_ms=10_000)
    for _ in range(4):
        group.advance(2_900)
        if not first.given:
            group.join(rebalance_ms=10_000)
    assert group.clock.monotonic_ms == 1_011_600
    assert first.answer.generation == 1


def test_without_newcomers_the_moment_is_over_after_one_delay() -> None:
    group = Group(PATIENT)
    first = group.join()
    group.advance(2_999)
    assert not first.given
    group.advance(3_001)
    assert first.given


def test_a_member_that_leaves_within_the_first_moment_leaves_an_empty_group() -> None:
    group = Group(PATIENT)
    waiting = group.join()
    member = next(iter(group.state.members))
    group.leave(member)
    assert waiting.answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    group.advance(6_000)
    assert group.is_in(Phase.EMPTY)


# ── waiting for the leader ───────────────────────────────────────────────────────────────────────────


def test_who_does_not_sync_in_time_is_out() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.rejoin(leader, follower)
    syncing = group.sync(follower)
    for _ in range(REBALANCE_MS // 5_000):
        group.heartbeat(leader)
        group.advance(5_000)
    assert syncing.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(group.state.members) == [follower]


def test_who_syncs_after_the_leader_is_in() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.rejoin(leader, follower)
    group.sync(leader, {follower: b"part"})
    group.sync(follower)
    for _ in range(REBALANCE_MS // 5_000 + 1):
        assert group.heartbeat(leader) is group.heartbeat(follower) is ErrorCode.NONE
        group.advance(5_000)


def test_who_waits_for_the_leader_does_not_expire_meanwhile_nor_right_after() -> None:
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


def test_a_newcomer_interrupts_the_wait_for_the_assignment() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.rejoin(leader, follower)
    syncing = group.sync(follower)
    group.join()
    assert syncing.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.is_in(Phase.PREPARING_REBALANCE)


def test_only_settled_generations_and_empty_groups_are_kept() -> None:
    group = Group()
    leader, _ = group.stable(2)
    group.join()
    group.heartbeat(leader)
    assert [type(fact) for fact in group.journal.kept] == [GenerationSettled]


# ── a journal that fails ─────────────────────────────────────────────────────────────────────────────


def test_an_assignment_that_cannot_be_kept_is_given_to_nobody_and_can_be_brought_again() -> None:
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


def test_an_assignment_is_given_only_once_it_is_committed() -> None:
    group = Group()
    leader = group.join().answer.member_id
    group.journal.hold()
    syncing = group.sync(leader, {leader: b"all"})
    assert group.is_in(Phase.STABLE)
    assert not syncing.given
    group.journal.release()
    assert syncing.answer.assignment == b"all"
