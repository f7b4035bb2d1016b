"""How a rebalance begins and ends: which members it waits for, and for how long."""

from __future__ import annotations

from mqcore.groups.commands import Phase
from mqcore.groups.facts import GroupEmptied
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.group_driver import AT_ONCE, REBALANCE_MS, SESSION_MS, Group


def test_a_rebalance_ends_as_soon_as_all_members_have_joined() -> None:
    group = Group()
    leader, follower = group.stable(2)
    newcomer = group.join()
    assert not group.join(leader).given
    assert group.join(follower).given
    assert newcomer.answer.generation == 3


def test_a_member_that_does_not_join_in_time_is_removed() -> None:
    group = Group()
    leader, follower = group.stable(2)
    newcomer = group.join(session_ms=SESSION_MS)
    group.join(follower)
    while group.clock.monotonic_ms < 1_000_000 + REBALANCE_MS - 5_000:
        group.advance(5_000)
        assert group.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS, "it is alive and still processes its records"
    assert not newcomer.given
    group.advance(5_000)
    assert newcomer.answer.generation == 3
    assert leader not in group.state.members
    assert group.heartbeat(leader) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_join_in_time_is_replaced() -> None:
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


def test_a_member_that_expires_completes_the_join_of_the_others() -> None:
    group = Group()
    leader, _ = group.stable(2)
    waiting = group.join(leader)
    group.advance(SESSION_MS)
    assert waiting.answer.generation == 3
    assert len(group.state.members) == 1


def test_a_rebalance_waits_for_an_issued_id_until_it_expires() -> None:
    group = Group()
    leader = group.stable()[0]
    group.join(requires_issued_id=True)
    waiting = group.join(leader)
    assert not waiting.given
    group.advance(SESSION_MS)
    assert waiting.answer.generation == 2


def test_a_rebalance_does_not_wait_for_an_id_that_has_left() -> None:
    group = Group()
    leader = group.stable()[0]
    issued = group.join(requires_issued_id=True).answer.member_id
    waiting = group.join(leader)
    assert group.leave(issued).errors == (ErrorCode.NONE,)
    assert waiting.given


def test_leaving_with_an_unused_id_does_not_disturb_a_stable_group() -> None:
    group = Group()
    group.stable()
    issued = group.join(requires_issued_id=True).answer.member_id
    group.leave(issued)
    assert group.is_in(Phase.STABLE)


def test_a_member_that_waits_in_join_does_not_expire() -> None:
    group = Group()
    leader, follower = group.stable(2)
    waiting = group.join(leader)
    for _ in range(10):
        group.advance(SESSION_MS // 2)
        group.heartbeat(follower)
    assert not waiting.given
    assert leader in group.state.members


def test_a_new_member_that_waits_too_long_in_join_is_removed() -> None:
    group = Group(AT_ONCE._replace(new_member_join_timeout_ms=20_000))
    member = group.stable()[0]
    newcomer = group.join()
    for _ in range(4):
        group.heartbeat(member)
        group.advance(5_000)
    assert newcomer.answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(group.state.members) == [member]


def test_when_the_last_member_leaves_the_empty_group_gets_a_new_generation() -> None:
    group = Group()
    member = group.stable()[0]
    group.leave(member)
    assert (group.state.phase, group.state.generation) == (Phase.EMPTY, 2)
    assert group.journal.kept[-1] == GroupEmptied(2, "consumer", group.clock.wall_ms())


def test_a_group_whose_members_all_expire_is_empty() -> None:
    group = Group()
    group.stable(3)
    group.advance(SESSION_MS)
    assert group.is_in(Phase.EMPTY)
    assert group.clock.next_timer_ms is None, "no timer is left"


def test_absent_static_members_keep_their_place_for_a_session_timeout() -> None:
    group = Group()
    leader, _ = group.stable(instances=("till-1", "till-2"))
    group.join(leader, instance="till-1", session_ms=30_000, rebalance_ms=5_000)
    group.advance(SESSION_MS - 1)
    assert "till-2" in group.state.instances
    group.advance(1)
    assert "till-2" not in group.state.instances


def test_an_absent_static_member_gets_an_assignment_like_the_others() -> None:
    group = Group()
    leader, away = group.stable(instances=("till-1", "till-2"))
    waiting = group.join(leader, instance="till-1", rebalance_ms=7_000)
    group.advance(3_000)
    group.heartbeat(away, instance="till-2")
    group.advance(REBALANCE_MS)
    assert waiting.given


def test_an_absent_static_leader_is_replaced_by_another_leader() -> None:
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


def test_a_rebalance_with_only_absent_static_members_lasts_until_their_sessions_end() -> None:
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
