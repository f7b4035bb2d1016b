"""The memory budget of all groups: what is rejected when it is used up, and when it is free again."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from mqcore.groups.commands import (
    AbandonJoin,
    CommitAnswer,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    OffsetToCommit,
    Phase,
    Sync,
    SyncAnswer,
)
from mqcore.groups.facts import CommittedOffset
from mqcore.groups.memory import OFFSET_BYTES, offset_bytes
from mqcore.groups.rules import UNPROVEN_MS_MAX
from mqcore.identity import LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.coordinator_driver import CoordinatorDriver, Heard
from tests.unit.mqcore.groups.group_driver import AT_ONCE, Group

KIB = 1024
TIGHT = AT_ONCE._replace(memory_bytes=100 * KIB)
FULL = ErrorCode.COORDINATOR_NOT_AVAILABLE
FINE = CommitAnswer((ErrorCode.NONE,))


def measured(driver: CoordinatorDriver) -> int:
    return sum(
        group.state.held_bytes for shard in driver.coordinator._shards.values() for group in shard.groups.values()
    )


def join(
    driver: CoordinatorDriver, group: str, member: str = "", *, size: int = 0, session_ms: int = 10_000
) -> Heard[JoinAnswer]:
    protocols = (("range", bytes(size)),)
    fresh = f"member-of-{group}"
    command = Join(member, fresh, None, "client", "/10.0.0.1", session_ms, 60_000, "consumer", protocols)
    return driver.submit(group, command)


def commit(driver: CoordinatorDriver, group: str, *texts: str, first_partition: int = 0) -> CommitAnswer | ErrorCode:
    offsets = tuple(
        OffsetToCommit("orders", first_partition + index, Offset(1), LeaderEpoch(0), text)
        for index, text in enumerate(texts)
    )
    return driver.submit(group, CommitOffsets("", -1, None, offsets)).answer


def fill_with_members(driver: CoordinatorDriver, size: int = 20 * KIB) -> list[str]:
    """Join one group after the other until a join is rejected. Returns the members that could join."""
    groups: list[str] = []
    while True:
        group = f"large-{len(groups)}"
        answer = join(driver, group, size=size, session_ms=1_800_000).answer
        assert isinstance(answer, JoinAnswer)
        if answer.error is not ErrorCode.NONE:
            assert answer.error is FULL
            return groups
        groups.append(group)


def test_a_join_that_exceeds_the_shared_budget_is_rejected() -> None:
    driver = CoordinatorDriver(TIGHT)
    groups = fill_with_members(driver)
    assert 3 <= len(groups) <= 5
    assert 80 * KIB < driver.coordinator.memory.used == measured(driver) <= 100 * KIB
    assert driver.coordinator.group_count == len(groups)


def test_rejections_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    driver = CoordinatorDriver(TIGHT)

    def lines() -> int:
        return sum("memory of groups is used up" in record.message for record in caplog.records)

    with caplog.at_level(logging.WARNING):
        fill_with_members(driver)
        for _ in range(10):
            join(driver, "late", size=20 * KIB)
        assert lines() == 1
        driver.clock.advance(60_000)
        fill_with_members(driver, 30 * KIB)
    assert lines() == 2


def test_a_used_up_budget_still_allows_heartbeats_rejoins_known_offsets_and_leaving() -> None:
    driver = CoordinatorDriver(TIGHT)
    member = driver.stabilize("shop")
    driver.commit("notebook", offset=1)
    fill_with_members(driver, 5 * KIB)
    while driver.coordinator.memory.fits(4 * KIB):
        assert commit(driver, "notebook", "", first_partition=measured(driver)) == FINE
    assert commit(driver, "new", "x" * 4_000) == CommitAnswer((FULL,))
    assert driver.submit("shop", Heartbeat(member, 1)).answer is ErrorCode.NONE
    assert driver.commit("notebook", offset=2) == FINE
    answer = driver.join("shop", member).answer
    assert isinstance(answer, JoinAnswer) and answer.error is ErrorCode.NONE
    synced = driver.submit("shop", Sync(member, answer.generation, assignments=((member, b"all"),))).answer
    assert isinstance(synced, SyncAnswer) and synced.error is ErrorCode.NONE
    driver.submit("shop", Leave(((member, None),)))
    assert driver.coordinator.memory.used == measured(driver)


def test_an_assignment_that_exceeds_the_budget_is_rejected_and_the_group_keeps_waiting() -> None:
    driver = CoordinatorDriver(TIGHT)
    answer = join(driver, "shop").answer
    assert isinstance(answer, JoinAnswer)
    refused = driver.submit("shop", Sync(answer.member_id, 1, assignments=((answer.member_id, bytes(99 * KIB)),)))
    assert isinstance(refused.answer, SyncAnswer) and refused.answer.error is FULL
    accepted = driver.submit("shop", Sync(answer.member_id, 1, assignments=((answer.member_id, b"all"),)))
    assert isinstance(accepted.answer, SyncAnswer) and accepted.answer.error is ErrorCode.NONE


def test_only_the_offsets_of_a_commit_that_exceed_the_budget_are_rejected() -> None:
    driver = CoordinatorDriver(TIGHT)
    answer = commit(driver, "notebook", *["x" * 4_000] * 40)
    assert isinstance(answer, CommitAnswer)
    errors = list(answer.errors)
    assert errors == [ErrorCode.NONE] * errors.count(ErrorCode.NONE) + [FULL] * errors.count(FULL)
    assert 20 <= errors.count(ErrorCode.NONE) <= 24
    assert driver.coordinator.memory.used == measured(driver) <= 100 * KIB


def test_an_offset_named_twice_in_a_commit_counts_with_its_last_metadata() -> None:
    state = Group(AT_ONCE._replace(max_offsets=1))
    twice = tuple(OffsetToCommit("orders", 0, Offset(1), LeaderEpoch(0), text) for text in ("long" * 100, "a"))
    assert state.submit(CommitOffsets("", -1, None, twice)).answer.errors == (ErrorCode.NONE,) * 2
    assert state.state.offsets_bytes == OFFSET_BYTES + len("orders") + 1


def test_a_text_counts_the_memory_that_python_needs_for_it() -> None:
    plain = offset_bytes("orders", CommittedOffset(Offset(1), metadata="a" * 100))
    assert offset_bytes("orders", CommittedOffset(Offset(1), metadata="😀" * 100)) == plain + 300


Free = Callable[[CoordinatorDriver, list[str]], object]


def members_leave(driver: CoordinatorDriver, groups: list[str]) -> None:
    for group in groups:
        driver.submit(group, Leave(((f"member-of-{group}", None),)))


def partitions_move(driver: CoordinatorDriver, groups: list[str]) -> None:
    for index in list(driver.partitions):
        driver.coordinator.resign(index)
        driver.lead(index)


def time_passes(driver: CoordinatorDriver, groups: list[str]) -> None:
    """The members have never synced, so their long session timeouts do not apply."""
    driver.clock.advance(UNPROVEN_MS_MAX)


@pytest.mark.parametrize("free", [members_leave, partitions_move, time_passes])
def test_the_memory_of_members_is_free_as_soon_as(free: Free) -> None:
    driver = CoordinatorDriver(TIGHT)
    before = len(fill_with_members(driver))
    free(driver, [f"large-{number}" for number in range(before)])
    assert driver.coordinator.memory.used == measured(driver) < 20 * KIB
    assert len(fill_with_members(driver)) == before


def test_the_memory_of_offsets_is_free_as_soon_as_they_are_deleted() -> None:
    driver = CoordinatorDriver(TIGHT)
    texts = ["x" * 4_000] * 20
    for delete in (
        lambda: driver.submit("notebook", DeleteGroup()),
        lambda: driver.submit("notebook", DeleteOffsets(tuple(("orders", index) for index in range(20)))),
        lambda: driver.coordinator.topic_deleted("orders"),
        lambda: driver.clock.advance(2 * AT_ONCE.offsets_retention_ms),
    ):
        assert commit(driver, "notebook", *texts) == CommitAnswer((ErrorCode.NONE,) * 20)
        other = commit(driver, "other", *texts)
        assert isinstance(other, CommitAnswer) and FULL in other.errors
        delete()
        driver.submit("other", DeleteGroup())
        assert driver.coordinator.memory.used == measured(driver) < 5 * KIB


def test_requests_to_missing_groups_use_no_memory() -> None:
    driver = CoordinatorDriver(TIGHT)
    for number in range(100):
        driver.submit(f"ghost-{number}", Heartbeat("m", 1))
        driver.join(f"ghost-{number}", "never-issued")
        driver.submit(f"ghost-{number}", AbandonJoin("m"))
    assert (driver.coordinator.memory.used, driver.coordinator.group_count) == (0, 0)


def test_a_new_member_whose_connection_closes_during_its_join_is_removed_immediately() -> None:
    rules = TIGHT._replace(initial_rebalance_delay_ms=3_000)
    driver = CoordinatorDriver(rules)
    waiting = join(driver, "shop", size=50 * KIB, session_ms=1_800_000)
    assert not waiting.answers
    driver.submit("shop", AbandonJoin("member-of-shop"))
    driver.clock.advance(3_000)
    assert driver.coordinator.memory.used == measured(driver) < 5 * KIB


def test_a_member_that_was_in_a_generation_keeps_its_place_when_its_connection_closes() -> None:
    group = Group()
    leader, _ = group.stable(2)
    waiting = group.join(leader)
    group.submit(AbandonJoin(leader))
    assert not waiting.given
    assert group.is_in(Phase.PREPARING_REBALANCE)
    assert leader in group.state.members


def test_an_issued_id_expires_after_at_most_a_minute() -> None:
    group = Group()
    group.join(requires_issued_id=True, session_ms=1_800_000)
    group.advance(UNPROVEN_MS_MAX - 1)
    assert group.state.issued_ids
    group.advance(1)
    assert group.state.is_blank


def test_a_member_that_has_synced_gets_its_whole_session_timeout() -> None:
    group = Group()
    member = group.join(session_ms=600_000).answer.member_id
    group.advance(UNPROVEN_MS_MAX - 1)
    group.sync(member, {member: b"all"})
    group.advance(600_000 - 1)
    assert group.is_in(Phase.STABLE)
    group.advance(1)
    assert group.is_in(Phase.EMPTY)
