"""JoinGroup of static members, which keep their place when they restart."""

from __future__ import annotations

from mqcore.groups.commands import Phase
from mqcore.groups.facts import Protocols
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.group_driver import AT_ONCE, RANGE, Group, subscription

STICKY: Protocols = (("sticky", subscription("orders")),)
BOTH: Protocols = (*STICKY, *RANGE)


# ── static members ───────────────────────────────────────────────────────────────────────────────────


def test_a_static_member_that_restarts_gets_its_assignment_back_without_a_rebalance() -> None:
    group = Group()
    leader, old = group.stable(instances=("till-1", "till-2"))
    answer = group.join(instance="till-2").answer
    assert (answer.error, answer.generation, answer.leader) == (ErrorCode.NONE, 2, leader)
    assert answer.member_id != old
    assert group.is_in(Phase.STABLE)
    assert group.sync(answer.member_id, instance="till-2").answer.assignment == old.encode()


def test_the_old_id_of_a_restarted_static_member_is_fenced() -> None:
    group = Group()
    _, old = group.stable(instances=("till-1", "till-2"))
    group.join(instance="till-2")
    assert group.heartbeat(old, instance="till-2") is ErrorCode.FENCED_INSTANCE_ID
    assert group.sync(old, instance="till-2").answer.error is ErrorCode.FENCED_INSTANCE_ID
    assert group.join(old, instance="till-2").answer.error is ErrorCode.FENCED_INSTANCE_ID
    assert group.commit(old, 2, instance="till-2").errors == (ErrorCode.FENCED_INSTANCE_ID,)
    assert group.leave((old, "till-2")).errors == (ErrorCode.FENCED_INSTANCE_ID,)
    assert group.heartbeat(old) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_new_id_of_a_static_member_survives_a_restart_of_the_coordinator() -> None:
    group = Group()
    group.stable(instances=("till-1", "till-2"))
    new = group.join(instance="till-2").answer.member_id
    group.restart()
    assert group.state.instances["till-2"] == new


def test_a_restarted_static_leader_does_not_assign_again() -> None:
    """An old client gets the id of the old leader. A new one gets the members and the flag to skip the assignment."""
    group = Group()
    old, _ = group.stable(instances=("till-1", "till-2"))
    first = group.join(instance="till-1").answer
    assert (first.leader, first.members) == (old, ())
    second = group.join(instance="till-1", can_skip=True).answer
    assert second.skip_assignment
    assert second.leader == second.member_id
    assert len(second.members) == 2


def test_a_restarted_static_follower_is_not_told_to_skip_the_assignment() -> None:
    group = Group()
    group.stable(instances=("till-1", "till-2"))
    assert not group.join(instance="till-2", can_skip=True).answer.skip_assignment


def test_a_static_member_that_restarts_with_other_topics_gets_them_in_the_next_rebalance() -> None:
    group = Group()
    leader, follower = group.stable(instances=("till-1", "till-2"))
    payments = subscription("payments")
    restarted = group.join(instance="till-2", protocols=(("range", payments),)).answer
    assert (restarted.error, restarted.generation, group.state.phase) == (ErrorCode.NONE, 2, Phase.STABLE)
    assert group.sync(restarted.member_id, instance="till-2").answer.assignment == follower.encode()
    again = group.join(leader, instance="till-1")
    group.join(restarted.member_id, instance="till-2", protocols=(("range", payments),))
    assert (restarted.member_id, "till-2", payments) in again.answer.members


def test_a_restarted_static_member_that_is_too_large_for_the_record_starts_a_rebalance() -> None:
    group = Group(AT_ONCE._replace(max_generation_bytes=100))
    group.stable(instances=("till-1", "till-2"))
    assert not group.join(instance="till-2", protocols=(("range", bytes(100)),)).given
    assert group.is_in(Phase.PREPARING_REBALANCE)


def test_changed_user_data_of_a_restarted_static_member_starts_no_rebalance() -> None:
    group = Group()
    group.stable(instances=("till-1", "till-2"))
    protocols = (("range", subscription("orders", user_data=b"owned: nothing")),)
    assert group.join(instance="till-2", protocols=protocols).given
    assert group.is_in(Phase.STABLE)


def test_a_restarted_static_member_that_changes_the_elected_protocol_starts_a_rebalance() -> None:
    group = Group()
    group.stable(instances=("till-1",), protocols=BOTH)
    assert group.state.protocol == "sticky"
    answer = group.join(instance="till-1", protocols=RANGE).answer
    assert answer.generation == 2
    assert answer.protocol == "range"


def test_a_restarted_static_member_that_prefers_another_protocol_starts_a_rebalance() -> None:
    group = Group()
    group.stable(instances=("till-1",), protocols=BOTH)
    answer = group.join(instance="till-1", protocols=tuple(reversed(BOTH))).answer
    assert (answer.generation, answer.protocol) == (2, "range")


def test_a_static_member_that_restarts_while_it_joins_fences_the_waiting_request() -> None:
    group = Group()
    group.stable(instances=("till-1", "till-2"))
    group.join()
    waiting = group.join(instance="till-2")
    successor = group.join(instance="till-2")
    assert waiting.answer.error is ErrorCode.FENCED_INSTANCE_ID
    assert not successor.given
    assert group.is_in(Phase.PREPARING_REBALANCE)


def test_a_static_member_that_restarts_while_others_wait_for_the_assignment_rebalances() -> None:
    group = Group()
    leader = group.stable(instances=("till-1",))[0]
    follower = group.join(instance="till-2")
    group.join(leader, instance="till-1")
    syncing = group.sync(follower.answer.member_id, instance="till-2")
    assert group.is_in(Phase.COMPLETING_REBALANCE)
    successor = group.join(instance="till-2")
    assert syncing.answer.error is ErrorCode.FENCED_INSTANCE_ID
    assert group.is_in(Phase.PREPARING_REBALANCE)
    group.join(leader, instance="till-1")
    assert successor.answer.generation == 3


def test_a_static_member_whose_session_expired_joins_like_a_new_one() -> None:
    group = Group()
    member = group.stable(instances=("till-1",))[0]
    group.leave((member, "till-1"))
    assert group.is_in(Phase.EMPTY)
    assert group.join(instance="till-1").answer.generation == 3


def test_an_unknown_instance_id_with_a_member_id_is_rejected() -> None:
    group = Group()
    member = group.stable()[0]
    assert group.join(member, instance="till-9").answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_instance_id_gives_other_clients_no_access() -> None:
    group = Group(AT_ONCE._replace(max_size=1))
    first = group.join(instance="").answer
    assert first.error is ErrorCode.NONE
    group.sync(first.member_id, instance="")
    assert group.join().answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.join(requires_issued_id=True).answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(group.state.members) == 1
