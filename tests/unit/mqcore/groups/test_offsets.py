"""Committed offsets: which clients may commit, what is read back, and the limits."""

from __future__ import annotations

import pytest

from mqcore.groups.commands import (
    CommitOffsets,
    FetchOffsets,
    OffsetToCommit,
    Phase,
)
from mqcore.groups.facts import CommittedOffset
from mqcore.identity import LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.group_driver import AT_ONCE, Group

FINE = (ErrorCode.NONE,)


def test_a_committed_offset_is_read_back_with_its_metadata() -> None:
    group = Group()
    member = group.stable()[0]
    assert group.commit(member, 1, offset=42, metadata="nach dem Frühstück").errors == FINE
    expected = CommittedOffset(Offset(42), LeaderEpoch(3), "nach dem Frühstück", group.clock.wall_ms())
    assert group.committed() == expected


def test_the_last_commit_wins() -> None:
    group = Group()
    for offset in (7, 9, 8):
        group.commit(offset=offset)
    committed = group.committed()
    assert committed is not None
    assert committed.offset == 8


def test_an_offset_that_was_never_committed_is_not_returned() -> None:
    group = Group()
    group.commit()
    assert group.committed(partition=1) is None
    assert group.committed("payments") is None


def test_all_offsets_are_returned_when_none_is_named() -> None:
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


def test_committed_offsets_survive_a_restart() -> None:
    group = Group()
    group.commit(offset=5, metadata="note")
    before = group.committed()
    group.restart()
    assert group.committed() == before


def test_a_commit_is_acknowledged_only_when_it_is_durable() -> None:
    group = Group()
    group.journal.hold()
    wanted = OffsetToCommit("orders", 0, Offset(1), LeaderEpoch(0), "")
    reply = group.submit(CommitOffsets("", -1, None, (wanted,)))
    read = group.submit(FetchOffsets())
    assert not reply.given
    assert not read.given, "an offset that could still be lost must not be read"
    group.journal.release()
    assert reply.answer.errors == FINE
    assert len(read.answer.offsets) == 1


# ── who may commit ───────────────────────────────────────────────────────────────────────────────────


def test_a_consumer_without_membership_commits_to_a_group_without_members() -> None:
    assert Group().commit().errors == FINE


def test_a_consumer_without_membership_cannot_commit_while_the_group_has_members() -> None:
    group = Group()
    group.stable()
    assert group.commit().errors == (ErrorCode.UNKNOWN_MEMBER_ID,)


def test_a_consumer_without_membership_can_commit_again_after_the_members_have_left() -> None:
    group = Group()
    group.leave(group.stable()[0])
    assert group.commit().errors == FINE


@pytest.mark.parametrize("generation", [0, 2])
def test_a_commit_of_another_generation_is_rejected(generation: int) -> None:
    group = Group()
    member = group.stable()[0]
    assert group.commit(member, generation).errors == (ErrorCode.ILLEGAL_GENERATION,)
    assert group.committed() is None


def test_a_commit_of_an_unknown_member_is_rejected() -> None:
    group = Group()
    group.stable()
    assert group.commit("stranger", 1).errors == (ErrorCode.UNKNOWN_MEMBER_ID,)


def test_a_commit_of_a_member_to_a_missing_group_is_rejected_and_creates_none() -> None:
    group = Group()
    assert group.commit("member", 3).errors == (ErrorCode.GROUP_ID_NOT_FOUND,)
    assert group.state.is_blank


def test_a_commit_without_a_generation_is_rejected_while_the_group_has_members() -> None:
    group = Group()
    member = group.stable()[0]
    assert group.commit(member, -1).errors == (ErrorCode.ILLEGAL_GENERATION,)


def test_a_member_that_has_to_join_again_may_still_commit_what_it_read() -> None:
    group = Group()
    member = group.stable()[0]
    group.join()
    assert group.is_in(Phase.PREPARING_REBALANCE)
    assert group.commit(member, 1).errors == FINE


def test_a_commit_between_two_assignments_is_rejected() -> None:
    group = Group()
    member = group.join().answer.member_id
    assert group.is_in(Phase.COMPLETING_REBALANCE)
    assert group.commit(member, 1).errors == (ErrorCode.REBALANCE_IN_PROGRESS,)


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────


def test_metadata_that_is_too_long_is_rejected_for_its_own_partition_only() -> None:
    group = Group(AT_ONCE._replace(offset_metadata_max_bytes=4))
    offsets = tuple(
        OffsetToCommit("orders", index, Offset(1), LeaderEpoch(0), text) for index, text in enumerate(["abcd", "éàü"])
    )
    answer = group.submit(CommitOffsets("", -1, None, offsets)).answer
    assert answer.errors == (ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE)
    assert group.committed(partition=1) is None


def test_the_offsets_of_a_group_are_limited_and_known_ones_can_still_be_committed() -> None:
    group = Group(AT_ONCE._replace(max_offsets=2))
    assert group.commit(partition=0).errors == FINE
    assert group.commit(partition=1).errors == FINE
    assert group.commit(partition=2).errors == (ErrorCode.POLICY_VIOLATION,)
    assert group.commit(partition=1, offset=2).errors == FINE


def test_the_size_of_a_commit_is_limited_to_one_batch() -> None:
    group = Group(AT_ONCE._replace(max_commit_bytes=10))
    assert group.commit(topic="a" * 11).errors == (ErrorCode.INVALID_COMMIT_OFFSET_SIZE,)
