"""Committed offsets: who may commit, what comes back, and when it ages out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mqcore.groups.commands import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Describe,
    ExpireOffsets,
    FetchOffsets,
    ForgetTopic,
    OffsetToCommit,
    Phase,
    Resume,
)
from mqcore.groups.facts import CommittedOffset, GroupRemoved, OffsetRemoved
from mqcore.identity import LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.cast import AT_ONCE, RANGE, SESSION_MS, Group

FINE = (ErrorCode.NONE,)
RETENTION_MS = AT_ONCE.offsets_retention_ms


def test_what_was_committed_comes_back_as_it_was() -> None:
    group = Group()
    member = group.stable()[0]
    assert group.commit(member, 1, offset=42, metadata="nach dem Frühstück").errors == FINE
    expected = CommittedOffset(Offset(42), LeaderEpoch(3), "nach dem Frühstück", group.clock.wall_ms())
    assert group.committed() == expected


def test_the_last_commit_counts() -> None:
    group = Group()
    for offset in (7, 9, 8):
        group.commit(offset=offset)
    committed = group.committed()
    assert committed is not None
    assert committed.offset == 8


def test_what_was_never_committed_does_not_come_back() -> None:
    group = Group()
    group.commit()
    assert group.committed(partition=1) is None
    assert group.committed("payments") is None


def test_all_offsets_come_back_when_none_are_named() -> None:
    group = Group()
    group.commit(partition=0)
    group.commit(partition=1)
    assert group.submit(FetchOffsets()).answer.offsets.keys() == {("orders", 0), ("orders", 1)}


def test_an_answer_does_not_change_when_more_is_committed() -> None:
    group = Group()
    group.commit(partition=0)
    answer = group.submit(FetchOffsets()).answer
    group.commit(partition=1)
    assert len(answer.offsets) == 1


def test_commits_survive_a_restart() -> None:
    group = Group()
    group.commit(offset=5, metadata="note")
    before = group.committed()
    group.restart()
    assert group.committed() == before


def test_a_commit_is_answered_only_once_it_is_committed() -> None:
    group = Group()
    group.journal.hold()
    wanted = OffsetToCommit("orders", 0, Offset(1), LeaderEpoch(0), "")
    reply = group.submit(CommitOffsets("", -1, None, (wanted,)))
    read = group.submit(FetchOffsets())
    assert not reply.given
    assert not read.given, "nor may anybody read what could still be lost"
    group.journal.release()
    assert reply.answer.errors == FINE
    assert len(read.answer.offsets) == 1


# ── who may commit ───────────────────────────────────────────────────────────────────────────────────


def test_a_consumer_that_assigns_itself_commits_to_a_group_without_members() -> None:
    assert Group().commit().errors == FINE


def test_it_may_not_while_the_group_has_members() -> None:
    group = Group()
    group.stable()
    assert group.commit().errors == (ErrorCode.UNKNOWN_MEMBER_ID,)


def test_it_may_again_once_they_are_gone() -> None:
    group = Group()
    group.leave(group.stable()[0])
    assert group.commit().errors == FINE


@pytest.mark.parametrize("generation", [0, 2])
def test_a_member_of_another_generation_is_refused(generation: int) -> None:
    group = Group()
    member = group.stable()[0]
    assert group.commit(member, generation).errors == (ErrorCode.ILLEGAL_GENERATION,)
    assert group.committed() is None


def test_a_stranger_is_refused() -> None:
    group = Group()
    group.stable()
    assert group.commit("stranger", 1).errors == (ErrorCode.UNKNOWN_MEMBER_ID,)


def test_a_member_of_a_group_that_is_gone_is_refused_and_makes_none() -> None:
    group = Group()
    assert group.commit("member", 3).errors == (ErrorCode.GROUP_ID_NOT_FOUND,)
    assert group.state.is_blank


def test_a_member_without_generation_is_refused_while_the_group_has_members() -> None:
    group = Group()
    member = group.stable()[0]
    assert group.commit(member, -1).errors == (ErrorCode.ILLEGAL_GENERATION,)


def test_a_member_that_has_to_join_again_may_still_commit_what_it_read() -> None:
    group = Group()
    member = group.stable()[0]
    group.join()
    assert group.is_in(Phase.PREPARING_REBALANCE)
    assert group.commit(member, 1).errors == FINE


def test_nobody_commits_between_two_assignments() -> None:
    group = Group()
    member = group.join().answer.member_id
    assert group.is_in(Phase.COMPLETING_REBALANCE)
    assert group.commit(member, 1).errors == (ErrorCode.REBALANCE_IN_PROGRESS,)


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────


def test_metadata_that_is_too_long_spoils_only_its_own_partition() -> None:
    group = Group(replace(AT_ONCE, offset_metadata_max_bytes=4))
    offsets = tuple(
        OffsetToCommit("orders", index, Offset(1), LeaderEpoch(0), text) for index, text in enumerate(["abcd", "éàü"])
    )
    answer = group.submit(CommitOffsets("", -1, None, offsets)).answer
    assert answer.errors == (ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE)
    assert group.committed(partition=1) is None


def test_a_group_keeps_only_so_many_offsets_but_those_can_go_on() -> None:
    group = Group(replace(AT_ONCE, max_offsets=2))
    assert group.commit(partition=0).errors == FINE
    assert group.commit(partition=1).errors == FINE
    assert group.commit(partition=2).errors == (ErrorCode.POLICY_VIOLATION,)
    assert group.commit(partition=1, offset=2).errors == FINE


def test_a_commit_is_not_larger_than_one_batch_can_be() -> None:
    group = Group(replace(AT_ONCE, max_commit_bytes=10))
    assert group.commit(topic="a" * 11).errors == (ErrorCode.INVALID_COMMIT_OFFSET_SIZE,)


# ── deleting ─────────────────────────────────────────────────────────────────────────────────────────


def delete(group: Group, *partitions: tuple[str, int]) -> tuple[ErrorCode, frozenset[str]]:
    answer = group.submit(DeleteOffsets(partitions)).answer
    return answer.error, answer.subscribed_topics


def test_offsets_of_an_empty_group_can_be_deleted() -> None:
    group = Group()
    group.commit()
    assert delete(group, ("orders", 0), ("orders", 1)) == (ErrorCode.NONE, frozenset())
    assert group.committed() is None
    assert group.journal.kept[-1] == OffsetRemoved("orders", 0), "and only what was there leaves a tombstone"


def test_offsets_of_a_topic_that_is_being_read_stay() -> None:
    group = Group()
    member = group.stable()[0]
    group.commit(member, 1, topic="orders")
    group.commit(member, 1, topic="payments")
    assert delete(group, ("orders", 0), ("payments", 0)) == (ErrorCode.NONE, frozenset({"orders"}))
    assert group.committed("orders") is not None
    assert group.committed("payments") is None


def test_offsets_stay_if_nobody_can_tell_what_is_being_read() -> None:
    group = Group()
    member = group.stable(protocols=(("range", b"no subscription"),))[0]
    group.commit(member, 1)
    assert delete(group, ("orders", 0)) == (ErrorCode.NONE, frozenset({"orders"}))


def test_offsets_of_a_group_of_another_kind_cannot_be_deleted_while_it_lives() -> None:
    group = Group()
    group.join(protocol_type="connect")
    assert delete(group, ("orders", 0))[0] is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_a_group_that_is_not_there_cannot_be_deleted() -> None:
    assert delete(Group(), ("orders", 0))[0] is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_without_members_can_be_deleted_with_all_it_knows() -> None:
    group = Group()
    group.commit(partition=0)
    group.commit(partition=1)
    assert group.submit(DeleteGroup()).answer is ErrorCode.NONE
    assert group.state.is_blank
    assert group.submit(Describe()).answer.phase is Phase.DEAD
    assert group.submit(DeleteGroup()).answer is ErrorCode.GROUP_ID_NOT_FOUND
    group.restart()
    assert group.state.is_blank


def test_a_group_with_members_cannot_be_deleted() -> None:
    group = Group()
    group.stable()
    assert group.submit(DeleteGroup()).answer is ErrorCode.NON_EMPTY_GROUP
    group.join()
    assert group.submit(DeleteGroup()).answer is ErrorCode.NON_EMPTY_GROUP


def test_nobody_joins_a_group_that_was_deleted_a_moment_ago() -> None:
    """The coordinator drops the machine at once; whoever still holds it is told to look again."""
    group = Group()
    group.commit()
    group.submit(DeleteGroup())
    assert group.join().answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.commit().errors == (ErrorCode.COORDINATOR_NOT_AVAILABLE,)
    assert group.heartbeat("member", 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.sync("member").answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.leave("member").errors == (ErrorCode.COORDINATOR_NOT_AVAILABLE,)


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    group = Group()
    member = group.stable()[0]
    group.commit(member, 1, topic="orders")
    group.commit(member, 1, topic="payments")
    group.submit(ForgetTopic("orders"))
    assert group.committed("orders") is None
    assert group.committed("payments") is not None


# ── aging ────────────────────────────────────────────────────────────────────────────────────────────


def expire(group: Group) -> None:
    assert group.submit(ExpireOffsets()).answer is ErrorCode.NONE


def test_offsets_of_a_self_assigned_consumer_age_each_from_its_commit() -> None:
    group = Group()
    group.commit(partition=0)
    group.advance(1_000)
    group.commit(partition=1)
    group.advance(RETENTION_MS - 1_000)
    expire(group)
    assert group.committed(partition=0) is None
    assert group.committed(partition=1) is not None
    group.advance(1_000)
    expire(group)
    assert group.state.is_blank, "nothing is left of the group"


def test_offsets_of_a_group_age_from_the_moment_it_was_empty() -> None:
    group = Group()
    member = group.stable()[0]
    group.commit(member, 1)
    group.clock.wall_ahead_ms += 2 * RETENTION_MS
    expire(group)
    assert group.committed() is not None, "a group with members keeps its offsets"
    group.leave(member)
    group.clock.wall_ahead_ms += RETENTION_MS - 1
    expire(group)
    assert group.committed() is not None
    group.clock.wall_ahead_ms += 1
    expire(group)
    assert group.state.is_blank
    assert group.journal.kept[-1] == GroupRemoved()


def test_the_age_of_an_empty_group_survives_a_restart() -> None:
    group = Group()
    member = group.stable()[0]
    group.commit(member, 1)
    group.leave(member)
    group.clock.wall_ahead_ms += RETENTION_MS - 1
    group.restart()
    group.submit(Resume())
    expire(group)
    assert group.committed() is not None
    group.clock.wall_ahead_ms += 1
    expire(group)
    assert group.committed() is None


def test_offsets_of_topics_that_a_living_group_no_longer_reads_age_from_their_commit() -> None:
    group = Group()
    member = group.stable(protocols=RANGE)[0]
    group.commit(member, 1, topic="payments")
    group.commit(member, 1, topic="orders")
    group.clock.wall_ahead_ms += RETENTION_MS
    expire(group)
    assert group.committed("payments") is None
    assert group.committed("orders") is not None
    assert group.is_in(Phase.STABLE)


def test_an_old_client_chooses_how_long_its_commit_is_kept() -> None:
    group = Group()
    group.commit(partition=0, retention_ms=5_000)
    group.commit(partition=1, retention_ms=2 * RETENTION_MS)
    group.restart()
    group.advance(5_000)
    expire(group)
    assert group.committed(partition=0) is None
    group.advance(RETENTION_MS)
    expire(group)
    assert group.committed(partition=1) is not None


def test_an_empty_group_without_offsets_is_forgotten_at_the_next_look() -> None:
    group = Group()
    group.leave(group.stable()[0])
    assert not group.state.is_blank
    expire(group)
    assert group.state.is_blank


def test_a_group_that_waits_for_a_member_is_not_forgotten() -> None:
    group = Group()
    group.leave(group.stable()[0])
    group.join(id_required=True)
    expire(group)
    assert not group.state.is_blank
    group.advance(SESSION_MS)
    expire(group)
    assert group.state.is_blank
