"""Which groups this broker coordinates, and how they are loaded when it takes over a partition."""

from __future__ import annotations

import errno

import pytest

from mqcore.groups.commands import (
    CommitOffsets,
    Heartbeat,
    OffsetToCommit,
    Phase,
)
from mqcore.groups.shard import RECORDS_PER_STEP
from mqcore.identity import LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import Record
from tests.unit.mqcore.groups.coordinator_driver import FINE, GROUPS, CoordinatorDriver, phase_of
from tests.unit.mqcore.groups.group_driver import AT_ONCE


def test_groups_are_distributed_over_the_partitions() -> None:
    driver = CoordinatorDriver()
    for group_id in GROUPS:
        assert driver.commit(group_id) == FINE
    used = {driver.place(group_id) for group_id in GROUPS}
    assert len(used) > 1
    assert {index for index, partition in driver.partitions.items() if partition.log.end_offset} == used


@pytest.mark.parametrize("how", ["kill", "clean"])
def test_kept_groups_and_offsets_are_available_after_a_restart(how: str) -> None:
    driver = CoordinatorDriver()
    members = {group_id: driver.stabilize(group_id) for group_id in GROUPS[:6]}
    for offset, group_id in enumerate(GROUPS[6:]):
        driver.commit(group_id, offset=offset)
    if how == "clean":
        for partition in driver.partitions.values():
            partition.log.close()
    driver.restart()
    for group_id, member in members.items():
        assert driver.submit(group_id, Heartbeat(member, 1)).answer is ErrorCode.NONE
    assert [driver.committed(group_id) for group_id in GROUPS[6:]] == list(range(6))


def test_sessions_start_again_after_a_restart() -> None:
    driver = CoordinatorDriver()
    driver.stabilize("shop")
    driver.clock.advance(9_999)
    driver.restart()
    driver.clock.advance(9_999)
    assert phase_of(driver, "shop") is Phase.STABLE
    driver.clock.advance(1)
    assert phase_of(driver, "shop") is Phase.EMPTY


def test_a_group_led_by_another_broker_gets_not_coordinator() -> None:
    driver = CoordinatorDriver()
    driver.coordinator.resign(driver.place("shop"))
    assert driver.commit("shop") is ErrorCode.NOT_COORDINATOR


def test_without_an_offsets_topic_no_group_has_a_coordinator() -> None:
    driver = CoordinatorDriver()
    driver.partition_count = 0
    assert driver.commit("shop") is ErrorCode.NOT_COORDINATOR


def test_waiting_members_get_not_coordinator_when_the_partition_moves() -> None:
    driver = CoordinatorDriver()
    driver.stabilize("shop")
    waiting = driver.join("shop")
    assert not waiting.answers
    driver.coordinator.resign(driver.place("shop"))
    assert waiting.answer is ErrorCode.NOT_COORDINATOR
    driver.clock.advance(100_000)  # no timer of the dropped group is left
    assert len(waiting.answers) == 1


def test_a_partition_that_is_led_again_has_its_groups() -> None:
    driver = CoordinatorDriver()
    driver.commit("shop", offset=5)
    driver.coordinator.resign(driver.place("shop"))
    driver.lead(driver.place("shop"))
    assert driver.committed("shop") == 5


def test_a_long_log_is_loaded_in_steps_and_its_groups_report_it() -> None:
    driver = CoordinatorDriver()
    for offset in range(RECORDS_PER_STEP + 1):
        driver.commit("shop", offset=offset)
    driver.restart()
    assert driver.commit("shop") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert driver.coordinator.list_groups() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    driver.clock.advance(0)
    assert driver.committed("shop") == RECORDS_PER_STEP


def test_loading_stops_when_the_partition_moves() -> None:
    driver = CoordinatorDriver()
    for offset in range(RECORDS_PER_STEP + 1):
        driver.commit("shop", offset=offset)
    driver.restart()
    driver.coordinator.resign(driver.place("shop"))
    driver.clock.advance(0)
    assert driver.commit("shop") is ErrorCode.NOT_COORDINATOR


def test_a_malformed_record_is_skipped() -> None:
    driver = CoordinatorDriver()
    driver.commit("shop", offset=1)
    partition = driver.partitions[driver.place("shop")]
    partition.append_records([Record(0, 0, b"\x00\x01\xff", b"x"), Record(0, 0, None, b"x"), Record(0, 0, b"", None)])
    driver.commit("shop", offset=2)
    driver.restart()
    assert driver.committed("shop") == 2


def test_an_unreadable_log_makes_only_its_own_groups_unavailable() -> None:
    driver = CoordinatorDriver()
    other = next(group_id for group_id in GROUPS if driver.place(group_id) != driver.place("shop"))
    driver.commit("shop")
    driver.commit(other)
    driver.coordinator.resign(driver.place("shop"))
    driver.disk.fail("read", errno.EIO, times=5)
    driver.lead(driver.place("shop"))
    assert driver.commit("shop") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.commit(other) == FINE


def test_a_log_that_could_not_be_opened_makes_only_its_own_groups_unavailable() -> None:
    driver = CoordinatorDriver()
    other = next(group_id for group_id in GROUPS if driver.place(group_id) != driver.place("shop"))
    driver.commit("shop")
    driver.commit(other)
    driver.coordinator.cannot_lead(driver.place("shop"))
    assert driver.commit("shop") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    listed = driver.coordinator.list_groups()
    assert isinstance(listed, list) and [each.group_id for each in listed] == [other]
    driver.lead(driver.place("shop"))
    assert driver.committed("shop") == 1


@pytest.mark.parametrize("at", [0, RECORDS_PER_STEP + 1])
def test_a_damaged_batch_makes_only_the_groups_of_its_log_unavailable(at: int) -> None:
    """The damage is found in the first or in a later step of the loading."""
    driver = CoordinatorDriver()
    other = next(group_id for group_id in GROUPS if driver.place(group_id) != driver.place("shop"))
    driver.commit(other)
    for offset in range(at + 2):
        driver.commit("shop", offset=offset)
    partition = driver.partitions[driver.place("shop")]
    segment = partition.log.segments.active
    place = segment.locate(at)
    driver.coordinator.resign(driver.place("shop"))
    content = bytearray(segment.file.read(0, segment.size))
    content[place + 8 : place + 12] = b"\x7f\x00\x00\x00"  # the length of a batch
    segment.file.truncate(0)
    segment.file.append([bytes(content)])
    driver.lead(driver.place("shop"))
    driver.clock.advance(0)
    assert driver.commit("shop") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.commit(other) == FINE
    listed = driver.coordinator.list_groups()
    assert isinstance(listed, list) and [each.group_id for each in listed] == [other]


def test_a_command_with_too_many_records_for_a_batch_is_rejected_without_effect() -> None:
    text = "x" * 32_000
    many = tuple(OffsetToCommit("orders", index, Offset(1), LeaderEpoch(0), text) for index in range(2_200))
    rules = AT_ONCE._replace(max_commit_bytes=1 << 40, offset_metadata_max_bytes=1 << 20, memory_bytes=1 << 30)
    driver = CoordinatorDriver(rules)
    driver.commit("shop", offset=7)
    assert driver.submit("shop", CommitOffsets("", -1, None, many)).answer is ErrorCode.POLICY_VIOLATION
    assert driver.committed("shop") == 7
    driver.restart()
    assert driver.committed("shop") == 7


def test_a_full_disk_rejects_commands_without_effect() -> None:
    driver = CoordinatorDriver()
    driver.commit("shop", offset=1)
    driver.disk.fail("append", errno.ENOSPC)
    assert driver.commit("shop", offset=2) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.committed("shop") == 1
    assert driver.commit("shop", offset=3) == FINE
    driver.restart()
    assert driver.committed("shop") == 3
