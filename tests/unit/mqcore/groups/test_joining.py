"""JoinGroup: member ids, protocols, and the size of a group."""

from __future__ import annotations

import pytest

from mqcore.groups.commands import Phase
from mqcore.groups.facts import Protocols
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.group_driver import AT_ONCE, RANGE, SESSION_MS, Group, subscription

STICKY: Protocols = (("sticky", subscription("orders")),)
BOTH: Protocols = (*STICKY, *RANGE)


def test_the_first_member_leads_the_first_generation() -> None:
    group = Group()
    answer = group.join().answer
    assert (answer.error, answer.generation, answer.protocol) == (ErrorCode.NONE, 1, "range")
    assert answer.leader == answer.member_id
    assert answer.members == ((answer.member_id, None, RANGE[0][1]),)
    assert group.is_in(Phase.COMPLETING_REBALANCE)


def test_only_the_leader_gets_the_list_of_members() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.leave("nobody")
    replies = group.rejoin(leader, follower)
    assert {name for name, _, _ in replies[0].answer.members} == {leader, follower}
    assert replies[1].answer.members == ()


def test_a_new_client_is_issued_an_id_and_joins_with_it() -> None:
    group = Group()
    refused = group.join(requires_issued_id=True).answer
    assert refused.error is ErrorCode.MEMBER_ID_REQUIRED
    assert group.is_in(Phase.EMPTY)
    assert group.join(refused.member_id, requires_issued_id=True).answer.member_id == refused.member_id
    assert not group.state.issued_ids


def test_a_static_member_joins_without_being_issued_an_id_first() -> None:
    assert Group().join(instance="till-1", requires_issued_id=True).answer.error is ErrorCode.NONE


def test_an_unused_issued_id_expires_after_the_session_timeout() -> None:
    group = Group()
    member = group.join(requires_issued_id=True).answer.member_id
    group.advance(SESSION_MS - 1)
    assert member in group.state.issued_ids
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
def test_session_timeouts_outside_the_allowed_range_are_rejected(session_ms: int) -> None:
    assert Group().join(session_ms=session_ms).answer.error is ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", ())])
def test_the_first_member_must_name_a_protocol_type_and_a_protocol(protocol_type: str, protocols: Protocols) -> None:
    answer = Group().join(protocol_type=protocol_type, protocols=protocols).answer
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_without_a_protocol_in_common_with_all_others_is_rejected() -> None:
    group = Group()
    group.stable(protocols=BOTH)
    assert group.join(protocols=(("other", b""),)).answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.join(protocol_type="connect").answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not group.join(protocols=RANGE).given, "one common protocol is enough"


def test_the_elected_protocol_has_the_most_votes_among_those_all_members_support() -> None:
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
    assert again.answer.leader == first, "the leader stays the leader while it joins"


def test_a_follower_that_repeats_its_join_starts_no_rebalance() -> None:
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


def test_a_leader_that_repeats_its_join_starts_a_rebalance() -> None:
    group = Group()
    leader, _ = group.stable(2)
    assert not group.join(leader).given
    assert group.is_in(Phase.PREPARING_REBALANCE)


def test_a_member_whose_answer_was_lost_gets_it_again() -> None:
    group = Group()
    first = group.join().answer
    assert group.is_in(Phase.COMPLETING_REBALANCE)
    assert group.join(first.member_id).answer == first


def test_a_second_join_of_a_member_answers_its_first_one() -> None:
    group = Group()
    leader, _ = group.stable(2)
    first = group.join(leader)
    second = group.join(leader)
    assert first.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert not second.given


def test_a_full_group_rejects_new_members() -> None:
    group = Group(AT_ONCE._replace(max_size=2))
    leader, follower = group.stable(2)
    assert group.join().answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.is_in(Phase.STABLE)
    assert group.join(follower).answer.error is ErrorCode.NONE, "members keep their places"
    assert group.heartbeat(leader) is ErrorCode.NONE


def test_in_a_rebalance_a_full_group_keeps_the_members_that_joined_first() -> None:
    group = Group(AT_ONCE._replace(max_size=2))
    late, follower = group.stable(2)
    group.leave(follower)
    newcomers = [group.join(), group.join()]
    assert group.join(late).answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert all(reply.answer.error is ErrorCode.NONE for reply in newcomers)


def test_the_number_of_issued_ids_is_limited() -> None:
    group = Group(AT_ONCE._replace(max_issued_ids=3))
    errors = [group.join(requires_issued_id=True).answer.error for _ in range(4)]
    assert errors == [*[ErrorCode.MEMBER_ID_REQUIRED] * 3, ErrorCode.GROUP_MAX_SIZE_REACHED]


@pytest.mark.parametrize(
    "protocols",
    [(("range", bytes(AT_ONCE.max_member_bytes + 1)),), (("r" * 256, b""),)],
    ids=["subscription", "name"],
)
def test_the_size_of_a_member_is_limited(protocols: Protocols) -> None:
    assert Group().join(protocols=protocols).answer.error is ErrorCode.INVALID_REQUEST
