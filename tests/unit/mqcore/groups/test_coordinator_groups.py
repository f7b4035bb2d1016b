"""Which groups exist, what happens to their offsets, and commands to many groups."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mqcore.groups import coordinator, shard
from mqcore.groups.commands import (
    DeleteGroup,
    DeleteOffsets,
    DeleteOffsetsAnswer,
    Describe,
    Description,
    FetchOffsets,
    Heartbeat,
    JoinAnswer,
    Phase,
)
from mqcore.groups.shard import RECORDS_PER_STEP
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.coordinator_driver import FINE, GROUPS, CoordinatorDriver, phase_of
from tests.unit.mqcore.groups.group_driver import AT_ONCE

# ── what is remembered, and what is not ──────────────────────────────────────────────────────────────


def test_requests_about_missing_groups_create_none() -> None:
    driver = CoordinatorDriver()
    driver.submit("ghost", Heartbeat("m", 1))
    driver.submit("ghost", FetchOffsets())
    driver.submit("ghost", Describe())
    driver.join("ghost", "never-issued")
    assert driver.coordinator.group_count == 0


def test_a_group_whose_issued_id_was_never_used_is_dropped() -> None:
    driver = CoordinatorDriver()
    driver.join("shop", requires_issued_id=True)
    assert driver.coordinator.group_count == 1
    driver.clock.advance(10_000)
    assert driver.coordinator.group_count == 0


def test_a_deleted_group_can_be_created_again() -> None:
    driver = CoordinatorDriver()
    driver.commit("shop")
    assert driver.submit("shop", DeleteGroup()).answer is ErrorCode.NONE
    assert driver.coordinator.group_count == 0
    driver.restart()
    assert driver.coordinator.group_count == 0
    answer = driver.join("shop").answer
    assert isinstance(answer, JoinAnswer)
    assert answer.generation == 1


def test_the_number_of_groups_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "GROUPS_MAX", 2)
    driver = CoordinatorDriver()
    assert driver.commit("a") == driver.commit("b") == FINE
    assert driver.commit("c") is ErrorCode.POLICY_VIOLATION
    assert driver.commit("a", offset=2) == FINE


def test_at_the_limit_of_groups_a_missing_group_can_still_be_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "GROUPS_MAX", 1)
    driver = CoordinatorDriver()
    assert driver.commit("a") == FINE
    assert driver.committed("ghost") is None
    assert driver.submit("ghost", Heartbeat("m", 1)).answer is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.submit("ghost", DeleteGroup()).answer is ErrorCode.GROUP_ID_NOT_FOUND
    assert phase_of(driver, "ghost") is Phase.DEAD
    assert driver.join("ghost").answer is ErrorCode.POLICY_VIOLATION
    assert driver.coordinator.group_count == 1


@pytest.mark.parametrize("broken", ["encode", "partition"])
def test_an_unexpected_failure_is_answered_and_leaves_no_group_behind(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = CoordinatorDriver()

    def fails(*arguments: object, **named: object) -> None:
        raise ValueError("no such int")

    with monkeypatch.context() as patch:
        if broken == "encode":
            patch.setattr(shard, "encode", fails)
        else:
            patch.setattr(Partition, "append_records", fails)
        assert [driver.commit(f"shop-{number}") for number in range(3)] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 3
    assert driver.coordinator.group_count == 0
    assert driver.commit("shop-0") == FINE


def test_a_group_id_may_be_empty_but_not_too_long() -> None:
    driver = CoordinatorDriver()
    assert driver.commit("") == FINE, "old consumers without group management use it"
    assert driver.commit("ä" * 127) == FINE
    assert driver.commit("ä" * 128) is ErrorCode.INVALID_GROUP_ID


def test_deleting_a_topic_removes_its_offsets_from_all_groups() -> None:
    driver = CoordinatorDriver()
    for group_id in GROUPS:
        driver.commit(group_id, "orders")
        driver.commit(group_id, "payments")
    driver.coordinator.topic_deleted("orders")
    assert {driver.committed(group_id, "orders") for group_id in GROUPS} == {None}
    assert {driver.committed(group_id, "payments") for group_id in GROUPS} == {1}


def test_offsets_of_a_topic_deleted_right_before_a_crash_are_removed_when_loaded() -> None:
    driver = CoordinatorDriver()
    driver.commit("shop", "orders", offset=5)
    driver.commit("shop", "payments", offset=6)
    driver.topics.remove("orders")
    driver.restart()
    driver.topics.add("orders")
    assert driver.committed("shop", "orders") is None
    assert driver.committed("shop", "payments") == 6


@pytest.mark.parametrize("how", ["loading", "offline"])
def test_offsets_of_a_topic_recreated_before_its_groups_are_loaded_are_removed(how: str) -> None:
    driver = CoordinatorDriver()
    for offset in range(RECORDS_PER_STEP + 1):
        driver.commit("shop", "orders", offset=offset)
    driver.commit("shop", "payments", offset=6)
    driver.restart()
    if how == "offline":
        driver.coordinator.cannot_lead(driver.place("shop"))
        driver.coordinator.cannot_lead(driver.place("shop"))
    driver.coordinator.topic_deleted("orders")
    if how == "offline":
        driver.lead(driver.place("shop"))
    while driver.submit("shop", Describe()).answer is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        driver.clock.advance(0)
    for _ in range(2):
        assert driver.committed("shop", "orders") is None
        assert driver.committed("shop", "payments") == 6
        driver.restart()
        while driver.submit("shop", Describe()).answer is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            driver.clock.advance(0)


def test_a_group_without_offsets_exists_until_it_is_deleted_or_expires() -> None:
    driver = CoordinatorDriver()
    for end in ("delete", "expire"):
        driver.commit("shop")
        assert isinstance(driver.submit("shop", DeleteOffsets((("orders", 0),))).answer, DeleteOffsetsAnswer)
        for _ in range(2):
            assert phase_of(driver, "shop") is Phase.EMPTY
            listed = driver.coordinator.list_groups()
            assert isinstance(listed, list) and [group.group_id for group in listed] == ["shop"]
            driver.restart()
        if end == "delete":
            assert driver.submit("shop", DeleteGroup()).answer is ErrorCode.NONE
        else:
            driver.clock.advance(600_000)
        for _ in range(2):
            assert driver.submit("shop", DeleteGroup()).answer is ErrorCode.GROUP_ID_NOT_FOUND
            assert driver.coordinator.group_count == 0
            driver.restart()


def test_offsets_are_checked_for_expiry_a_few_groups_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "EXPIRED_GROUPS_PER_STEP", 5)
    driver = CoordinatorDriver()
    for number in range(12):
        driver.commit(f"old-{number}")
    driver.clock.wall_ahead_ms += AT_ONCE.offsets_retention_ms
    left: list[Callable[[], None]] = []
    monkeypatch.setattr(driver.clock, "call_soon", left.append)
    driver.clock.advance(600_000)
    counts = [driver.coordinator.group_count]
    while left:
        left.pop()()
        counts.append(driver.coordinator.group_count)
    assert counts == [7, 2, 0]
    monkeypatch.undo()
    driver.commit("new")
    driver.clock.wall_ahead_ms += AT_ONCE.offsets_retention_ms
    driver.clock.advance(600_000)
    assert driver.coordinator.group_count == 0, "the next check comes after the interval"


def test_closing_the_coordinator_ends_a_running_expiry_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "EXPIRED_GROUPS_PER_STEP", 1)
    driver = CoordinatorDriver()
    for number in range(3):
        driver.commit(f"old-{number}")
    monkeypatch.setattr(driver.clock, "call_soon", lambda callback: driver.clock.call_later(10, callback))
    driver.clock.advance(600_000)
    assert driver.clock.next_timer_ms == 10
    driver.coordinator.close()
    assert driver.clock.next_timer_ms is None


def test_expired_offsets_are_removed_at_regular_intervals() -> None:
    driver = CoordinatorDriver()
    driver.commit("shop")
    driver.clock.advance(AT_ONCE.offsets_retention_ms - 600_000)
    assert driver.coordinator.group_count == 1
    driver.clock.advance(600_000)
    assert driver.coordinator.group_count == 0
    driver.coordinator.close()
    assert driver.clock.next_timer_ms is None


def test_commands_to_several_groups_are_answered_together_and_in_order() -> None:
    driver = CoordinatorDriver()
    driver.commit("a")
    answers: list[list[Description | ErrorCode]] = []
    driver.coordinator.submit_all([("ghost", Describe()), ("a", Describe())], answers.append)
    driver.coordinator.submit_all([], answers.append)
    first = [answer.phase for answer in answers[0] if isinstance(answer, Description)]
    assert first == [Phase.DEAD, Phase.EMPTY]
    assert answers[1] == []


def test_commands_to_very_many_groups_let_other_work_run_in_between() -> None:
    driver = CoordinatorDriver()
    answers: list[list[Description | ErrorCode]] = []
    many = [(f"ghost-{number}", Describe()) for number in range(coordinator.GROUPS_PER_STEP + 1)]
    driver.coordinator.submit_all(many, answers.append)
    assert answers == []
    driver.clock.advance(0)
    assert [len(answer) for answer in answers] == [len(many)]


def test_all_groups_and_their_committed_offsets_are_listed() -> None:
    driver = CoordinatorDriver()
    driver.stabilize("shop")
    driver.commit("notebook", offset=4)
    listed = driver.coordinator.list_groups()
    assert not isinstance(listed, ErrorCode)
    assert {(group.group_id, group.protocol_type, group.phase) for group in listed} == {
        ("shop", "consumer", Phase.STABLE),
        ("notebook", "", Phase.EMPTY),
    }
    assert [(group, str(name), offset) for group, name, offset in driver.coordinator.committed_offsets()] == [
        ("notebook", "orders-0", 4)
    ]
