"""Committed offsets that are deleted, or that expire."""

from __future__ import annotations

from mqcore.groups.commands import (
    DeleteGroup,
    DeleteOffsets,
    Describe,
    ExpireOffsets,
    ForgetTopic,
    Phase,
    ResumeSessions,
)
from mqcore.groups.facts import GroupRemoved, OffsetRemoved
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.group_driver import AT_ONCE, RANGE, SESSION_MS, Group

RETENTION_MS = AT_ONCE.offsets_retention_ms


# ── deleting ─────────────────────────────────────────────────────────────────────────────────────────


def delete(group: Group, *partitions: tuple[str, int]) -> tuple[ErrorCode, frozenset[str]]:
    answer = group.submit(DeleteOffsets(partitions)).answer
    return answer.error, answer.subscribed_topics


def test_offsets_of_an_empty_group_can_be_deleted() -> None:
    group = Group()
    group.commit()
    assert delete(group, ("orders", 0), ("orders", 1)) == (ErrorCode.NONE, frozenset())
    assert group.committed() is None
    assert group.journal.kept[-1] == OffsetRemoved("orders", 0), "only existing offsets leave a tombstone"


def test_offsets_of_a_topic_that_is_being_read_stay() -> None:
    group = Group()
    member = group.stable()[0]
    group.commit(member, 1, topic="orders")
    group.commit(member, 1, topic="payments")
    assert delete(group, ("orders", 0), ("payments", 0)) == (ErrorCode.NONE, frozenset({"orders"}))
    assert group.committed("orders") is not None
    assert group.committed("payments") is None


def test_offsets_stay_when_the_subscription_cannot_be_parsed() -> None:
    group = Group()
    member = group.stable(protocols=(("range", b"no subscription"),))[0]
    group.commit(member, 1)
    assert delete(group, ("orders", 0)) == (ErrorCode.NONE, frozenset({"orders"}))


def test_offsets_of_a_group_with_another_protocol_type_cannot_be_deleted_while_it_has_members() -> None:
    group = Group()
    group.join(protocol_type="connect")
    assert delete(group, ("orders", 0))[0] is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_a_missing_group_cannot_be_deleted() -> None:
    assert delete(Group(), ("orders", 0))[0] is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_without_members_can_be_deleted_with_its_offsets() -> None:
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


def test_a_group_that_was_just_deleted_accepts_no_member() -> None:
    """The coordinator drops the machine immediately; a command that reaches it anyway fails with a retryable error."""
    group = Group()
    group.commit()
    group.submit(DeleteGroup())
    assert group.join().answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.commit().errors == (ErrorCode.COORDINATOR_NOT_AVAILABLE,)
    assert group.heartbeat("member", 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.sync("member").answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.leave("member").errors == (ErrorCode.COORDINATOR_NOT_AVAILABLE,)


def test_deleting_a_topic_removes_its_offsets() -> None:
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


def test_offsets_of_a_group_without_members_expire_each_by_its_own_commit_time() -> None:
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
    assert group.state.is_blank, "the group is blank"


def test_offsets_of_a_group_expire_counted_from_when_it_became_empty() -> None:
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
    group.submit(ResumeSessions())
    expire(group)
    assert group.committed() is not None
    group.clock.wall_ahead_ms += 1
    expire(group)
    assert group.committed() is None


def test_offsets_of_topics_that_a_group_does_not_read_any_more_expire_by_commit_time() -> None:
    group = Group()
    member = group.stable(protocols=RANGE)[0]
    group.commit(member, 1, topic="payments")
    group.commit(member, 1, topic="orders")
    group.clock.wall_ahead_ms += RETENTION_MS
    expire(group)
    assert group.committed("payments") is None
    assert group.committed("orders") is not None
    assert group.is_in(Phase.STABLE)


def test_an_old_client_chooses_the_retention_of_its_commit() -> None:
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


def test_an_empty_group_without_offsets_is_removed_by_the_next_expiry_check() -> None:
    group = Group()
    group.leave(group.stable()[0])
    assert not group.state.is_blank
    expire(group)
    assert group.state.is_blank


def test_a_group_with_an_issued_id_is_not_removed() -> None:
    group = Group()
    group.leave(group.stable()[0])
    group.join(requires_issued_id=True)
    expire(group)
    assert not group.state.is_blank
    group.advance(SESSION_MS)
    expire(group)
    assert group.state.is_blank
