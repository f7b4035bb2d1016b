"""The memory budget while groups are loaded."""

from __future__ import annotations

import logging

import pytest

from mqcore.groups.commands import (
    CommitAnswer,
    CommitOffsets,
    DeleteGroup,
    Heartbeat,
    OffsetToCommit,
)
from mqcore.groups.memory import GroupMemory
from mqcore.groups.shard import LOADING_MEMORY_FACTOR
from mqcore.identity import LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.coordinator_driver import CoordinatorDriver
from tests.unit.mqcore.groups.group_driver import AT_ONCE, SESSION_MS, Group

KIB = 1024
TIGHT = AT_ONCE._replace(memory_bytes=100 * KIB)
FULL = ErrorCode.COORDINATOR_NOT_AVAILABLE


def measured(driver: CoordinatorDriver) -> int:
    return sum(
        group.state.held_bytes for shard in driver.coordinator._shards.values() for group in shard.groups.values()
    )


def commit(driver: CoordinatorDriver, group: str, *texts: str, first_partition: int = 0) -> CommitAnswer | ErrorCode:
    offsets = tuple(
        OffsetToCommit("orders", first_partition + index, Offset(1), LeaderEpoch(0), text)
        for index, text in enumerate(texts)
    )
    return driver.submit(group, CommitOffsets("", -1, None, offsets)).answer


# ── loading ──────────────────────────────────────────────────────────────────────────────────────────


def test_groups_that_fill_the_budget_are_all_loaded_after_a_restart() -> None:
    driver = CoordinatorDriver(TIGHT)
    for number in range(4):
        commit(driver, f"group-{number}", *["x" * 4_000] * 5)
    used = driver.coordinator.memory.used
    assert used > 80 * KIB
    for _ in range(2):
        driver.restart()
        assert driver.coordinator.memory.used == used == measured(driver)
        assert all(driver.committed(f"group-{number}") == 1 for number in range(4))


def test_deleted_data_in_a_log_does_not_prevent_loading() -> None:
    driver = CoordinatorDriver(TIGHT)
    for group in ("a", "b", "c", "d", "e", "f"):
        for _ in range(3):
            commit(driver, group, *["x" * 4_000] * 20)
            driver.submit(group, DeleteGroup())
    commit(driver, "kept", *["x" * 4_000] * 20)
    driver.restart()
    assert driver.committed("kept") == 1
    assert driver.coordinator.memory.used == measured(driver)


def test_a_log_that_exceeds_the_budget_makes_only_its_largest_groups_unavailable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = CoordinatorDriver(AT_ONCE._replace(memory_bytes=1 << 30))
    large = [f"large-{number}" for number in range(10)]
    small = [f"small-{number}" for number in range(10)]
    for group in small[:5]:
        driver.commit(group)
    for group in large:
        commit(driver, group, *["x" * 4_000] * 15)
    for group in small[5:]:
        driver.commit(group)
    driver.rules = TIGHT
    with caplog.at_level(logging.ERROR):
        driver.restart()
    assert driver.coordinator.memory.used == measured(driver) <= LOADING_MEMORY_FACTOR * TIGHT.memory_bytes
    assert [driver.committed(group) for group in small] == [1] * 10
    refused = [group for group in large if driver.submit(group, Heartbeat("m", 1)).answer is FULL]
    assert 0 < len(refused) < len(large)
    assert "groups take more memory than group.memory.max.bytes allows and stay unavailable" in caplog.messages
    driver.rules = AT_ONCE._replace(memory_bytes=1 << 30)
    driver.restart()
    assert [driver.committed(group) for group in large] == [1] * 10


def test_a_deleted_group_is_available_however_large_it_was() -> None:
    driver = CoordinatorDriver(AT_ONCE._replace(memory_bytes=1 << 30))
    commit(driver, "huge", *["x" * 4_000] * 100)
    driver.submit("huge", DeleteGroup())
    commit(driver, "huge", "again")
    driver.rules = TIGHT
    driver.restart()
    assert driver.committed("huge") == 1


def test_a_partition_given_up_during_loading_uses_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = CoordinatorDriver(TIGHT)
    for offset in range(600):
        driver.commit("shop", offset=offset)
    driver.restart()
    assert driver.coordinator.memory.used > 0
    driver.coordinator.resign(driver.place("shop"))
    driver.clock.advance(0)
    assert driver.coordinator.memory.used == 0


def test_a_reduction_fits_into_a_used_up_budget() -> None:
    memory = GroupMemory(10)
    memory.used = 20
    assert memory.fits(0) and memory.fits(-1)
    assert not memory.fits(1)


def test_sessions_of_known_members_are_not_shortened() -> None:
    group = Group()
    member = group.stable()[0]
    group.advance(SESSION_MS - 1)
    assert group.heartbeat(member) is ErrorCode.NONE
