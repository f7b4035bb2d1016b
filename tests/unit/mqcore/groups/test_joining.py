"""JoinGroup: ids, static members, protocols, room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mqcore.groups.commands import Phase
from mqcore.groups.facts import Protocols
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.cast import AT_ONCE, RANGE, SESSION_MS, Group, subscription

STICKY: Protocols = (("sticky", subscription("orders")),)
BOTH: Protocols = (*STICKY, *RANGE)


def test_the_first_member_leads_the_first_generation() -> None:
    group = Group()
    answer = group.join().answer
    assert (answer.error, answer.generation, answer.protocol) == (ErrorCode.NONE, 1, "range")
    assert answer.leader == answer.member_id
    assert answer.members == ((answer.member_id, None, RANGE[0][1]),)
    assert group.is_in(Phase.COMPLETING_REBALANCE)


def test_only_the_leader_is_told_who_the_members_are() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.leave("nobody")
    replies = group.rejoin(leader, follower)
    assert {name for name, _, _ in replies[0].answer.members} == {leader, follower}
    assert replies[1].answer.members == ()


def test_a_new_client_is_told_its_id_first_and_let_in_with_it() -> None:
    group = Group()
    refused = group.join(id_required=True).answer
    assert refused.error is ErrorCode.MEMBER_ID_REQUIRED
    assert group.is_in(Phase.EMPTY)
    assert group.join(refused.member_id, id_required=True).answer.member_id == refused.member_id
    assert not group.state.pending


def test_a_static_member_needs_no_id_first() -> None:
    assert Group().join(instance="till-1", id_required=True).answer.error is ErrorCode.NONE


def test_an_issued_id_that_nobody_comes_back_with_is_forgotten_after_a_session() -> None:
    group = Group()
    member = group.join(id_required=True).answer.member_id
    group.advance(SESSION_MS - 1)
    assert member in group.state.pending
    group.advance(1)
    assert group.state.is_blank
    assert group.join(member).answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_never_issued_is_unknown() -> None:
    group = Group()
    assert group.join("stranger", protocols=()).answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.join("stranger").answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    group.stable()
    assert group.join("stranger").answer.error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("session_ms", [AT_ONCE.min_session_timeout_ms - 1, AT_ONCE.max_session_timeout_ms + 1])
def test_sessions_outside_the_allowed_range_are_refused(session_ms: int) -> None:
    assert Group().join(session_ms=session_ms).answer.error is ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", ())])
def test_a_first_member_has_to_say_what_it_speaks(protocol_type: str, protocols: Protocols) -> None:
    answer = Group().join(protocol_type=protocol_type, protocols=protocols).answer
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_that_shares_no_protocol_with_all_others_is_refused() -> None:
    group = Group()
    group.stable(protocols=BOTH)
    assert group.join(protocols=(("other", b""),)).answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.join(protocol_type="connect").answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not group.join(protocols=RANGE).given, "one in common is enough"


def test_the_protocol_is_the_one_most_members_like_best_among_those_all_know() -> None:
    group = Group()
    first = group.join(protocols=BOTH).answer.member_id
    others = [group.join(protocols=tuple(reversed(BOTH))) for _ in range(2)]
    group.join(first, protocols=BOTH)
    assert others[0].answer.protocol == "range"


def test_a_second_member_makes_the_first_one_join_again() -> None:
    group = Group()
    first = group.stable()[0]
    second = group.join()
    assert group.is_in(Phase.PREPARING_REBALANCE)
    assert not second.given
    assert group.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    again = group.join(first)
    assert again.answer.generation == second.answer.generation == 2
    assert again.answer.leader == first, "the leader stays as long as it joins"


def test_a_follower_asking_again_with_the_same_words_disturbs_nobody() -> None:
    group = Group()
    _, follower = group.stable(2)
    answer = group.join(follower).answer
    assert (answer.error, answer.generation, answer.members) == (ErrorCode.NONE, 2, ())
    assert group.is_in(Phase.STABLE)


def test_a_follower_with_another_subscription_starts_a_rebalance() -> None:
    group = Group()
    _, follower = group.stable(2)
    assert not group.join(follower, protocols=(("range", subscription("orders", "payments")),)).given
    assert group.is_in(Phase.PREPARING_REBALANCE)


def test_a_leader_asking_again_starts_a_rebalance() -> None:
    group = Group()
    leader, _ = group.stable(2)
    assert not group.join(leader).given
    assert group.is_in(Phase.PREPARING_REBALANCE)


def test_a_member_whose_answer_was_lost_gets_it_again() -> None:
    group = Group()
    first = group.join().answer
    assert group.is_in(Phase.COMPLETING_REBALANCE)
    assert group.join(first.member_id).answer == first


def test_a_second_join_of_the_same_member_releases_the_first() -> None:
    group = Group()
    leader, _ = group.stable(2)
    first = group.join(leader)
    second = group.join(leader)
    assert first.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert not second.given


def test_a_full_group_takes_nobody_in() -> None:
    group = Group(replace(AT_ONCE, max_size=2))
    leader, follower = group.stable(2)
    assert group.join().answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.is_in(Phase.STABLE)
    assert group.join(follower).answer.error is ErrorCode.NONE, "members keep their place"
    assert group.heartbeat(leader) is ErrorCode.NONE


def test_in_a_rebalance_a_full_group_keeps_those_who_came_first() -> None:
    group = Group(replace(AT_ONCE, max_size=2))
    late, follower = group.stable(2)
    group.leave(follower)
    newcomers = [group.join(), group.join()]
    assert group.join(late).answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert all(reply.answer.error is ErrorCode.NONE for reply in newcomers)


def test_ids_cannot_be_collected_without_end() -> None:
    group = Group(replace(AT_ONCE, max_pending=3))
    errors = [group.join(id_required=True).answer.error for _ in range(4)]
    assert errors == [*[ErrorCode.MEMBER_ID_REQUIRED] * 3, ErrorCode.GROUP_MAX_SIZE_REACHED]


@pytest.mark.parametrize(
    "protocols",
    [(("range", bytes(AT_ONCE.max_member_bytes + 1)),), (("r" * 256, b""),)],
    ids=["subscription", "name"],
)
def test_a_member_cannot_be_larger_than_its_limits(protocols: Protocols) -> None:
    assert Group().join(protocols=protocols).answer.error is ErrorCode.INVALID_REQUEST


# ── static members ───────────────────────────────────────────────────────────────────────────────────


def test_a_static_member_that_restarts_gets_its_assignment_back_without_a_rebalance() -> None:
    group = Group()
    leader, old = group.stable(instances=("till-1", "till-2"))
    answer = group.join(instance="till-2").answer
    assert (answer.error, answer.generation, answer.leader) == (ErrorCode.NONE, 2, leader)
    assert answer.member_id != old
    assert group.is_in(Phase.STABLE)
    assert group.sync(answer.member_id, instance="till-2").answer.assignment == old.encode()


def test_the_old_self_of_a_static_member_is_fenced() -> None:
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


def test_a_static_leader_that_restarts_must_not_assign() -> None:
    """An old client is shown the old leader's id; a new one gets the members and is told to skip the assignment."""
    group = Group()
    old, _ = group.stable(instances=("till-1", "till-2"))
    first = group.join(instance="till-1").answer
    assert (first.leader, first.members) == (old, ())
    second = group.join(instance="till-1", can_skip=True).answer
    assert second.skip_assignment
    assert second.leader == second.member_id
    assert len(second.members) == 2


def test_a_static_follower_has_nothing_to_skip() -> None:
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


def test_a_static_member_that_restarts_with_more_than_a_record_holds_starts_a_rebalance() -> None:
    group = Group(replace(AT_ONCE, max_generation_bytes=100))
    group.stable(instances=("till-1", "till-2"))
    assert not group.join(instance="till-2", protocols=(("range", bytes(100)),)).given
    assert group.is_in(Phase.PREPARING_REBALANCE)


def test_what_a_static_member_owned_before_it_restarted_is_no_reason_to_rebalance() -> None:
    group = Group()
    group.stable(instances=("till-1", "till-2"))
    protocols = (("range", subscription("orders", user_data=b"owned: nothing")),)
    assert group.join(instance="till-2", protocols=protocols).given
    assert group.is_in(Phase.STABLE)


def test_a_static_member_that_changes_the_vote_starts_a_rebalance() -> None:
    group = Group()
    group.stable(instances=("till-1",), protocols=BOTH)
    assert group.state.protocol == "sticky"
    answer = group.join(instance="till-1", protocols=RANGE).answer
    assert answer.generation == 2
    assert answer.protocol == "range"


def test_a_static_member_that_likes_another_protocol_better_now_starts_a_rebalance() -> None:
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


def test_a_static_member_that_was_forgotten_joins_like_a_new_one() -> None:
    group = Group()
    member = group.stable(instances=("till-1",))[0]
    group.leave((member, "till-1"))
    assert group.is_in(Phase.EMPTY)
    assert group.join(instance="till-1").answer.generation == 3


def test_an_instance_that_nobody_has_with_a_member_id_is_unknown() -> None:
    group = Group()
    member = group.stable()[0]
    assert group.join(member, instance="till-9").answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_instance_id_of_one_member_opens_the_group_to_no_others() -> None:
    group = Group(replace(AT_ONCE, max_size=1))
    first = group.join(instance="").answer
    assert first.error is ErrorCode.NONE
    group.sync(first.member_id, instance="")
    assert group.join().answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.join(id_required=True).answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(group.state.members) == 1
