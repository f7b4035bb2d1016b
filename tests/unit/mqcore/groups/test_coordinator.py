"""Which groups this broker coordinates, how it comes by them, and what happens when it loses them."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace

import pytest

from mqcore.groups import coordinator, led
from mqcore.groups.commands import (
    CommitAnswer,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DeleteOffsetsAnswer,
    Describe,
    Description,
    FetchOffsets,
    Heartbeat,
    JoinAnswer,
    OffsetToCommit,
    Phase,
)
from mqcore.groups.led import RECORDS_PER_STEP
from mqcore.identity import LeaderEpoch, Offset
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import Record
from tests.unit.mqcore.groups.cast import AT_ONCE
from tests.unit.mqcore.groups.office import Office

GROUPS = tuple(f"group-{number}" for number in range(12))
FINE = CommitAnswer((ErrorCode.NONE,))


def phase_of(office: Office, group_id: str) -> Phase:
    answer = office.submit(group_id, Describe()).answer
    assert isinstance(answer, Description)
    return answer.phase


def test_groups_are_spread_over_the_partitions() -> None:
    office = Office()
    for group_id in GROUPS:
        assert office.commit(group_id) == FINE
    used = {office.place(group_id) for group_id in GROUPS}
    assert len(used) > 1
    assert {index for index, partition in office.partitions.items() if partition.log.end_offset} == used


@pytest.mark.parametrize("how", ["kill", "clean"])
def test_everything_kept_is_there_again_after_a_restart(how: str) -> None:
    office = Office()
    members = {group_id: office.settle(group_id) for group_id in GROUPS[:6]}
    for offset, group_id in enumerate(GROUPS[6:]):
        office.commit(group_id, offset=offset)
    if how == "clean":
        for partition in office.partitions.values():
            partition.log.close()
    office.restart()
    for group_id, member in members.items():
        assert office.submit(group_id, Heartbeat(member, 1)).answer is ErrorCode.NONE
    assert [office.committed(group_id) for group_id in GROUPS[6:]] == list(range(6))


def test_sessions_start_again_after_a_restart() -> None:
    office = Office()
    office.settle("shop")
    office.clock.advance(9_999)
    office.restart()
    office.clock.advance(9_999)
    assert phase_of(office, "shop") is Phase.STABLE
    office.clock.advance(1)
    assert phase_of(office, "shop") is Phase.EMPTY


def test_a_group_whose_partition_is_led_elsewhere_is_not_answered_for() -> None:
    office = Office()
    office.coordinator.resign(office.place("shop"))
    assert office.commit("shop") is ErrorCode.NOT_COORDINATOR


def test_without_an_offsets_topic_nothing_is_coordinated() -> None:
    office = Office()
    office.partition_count = 0
    assert office.commit("shop") is ErrorCode.NOT_COORDINATOR


def test_who_waits_when_the_partition_moves_is_sent_to_look_for_the_coordinator() -> None:
    office = Office()
    office.settle("shop")
    waiting = office.join("shop")
    assert not waiting.answers
    office.coordinator.resign(office.place("shop"))
    assert waiting.answer is ErrorCode.NOT_COORDINATOR
    office.clock.advance(100_000)  # and no timer of the dropped group does anything
    assert len(waiting.answers) == 1


def test_a_partition_that_comes_back_brings_its_groups() -> None:
    office = Office()
    office.commit("shop", offset=5)
    office.coordinator.resign(office.place("shop"))
    office.lead(office.place("shop"))
    assert office.committed("shop") == 5


def test_a_long_log_is_loaded_in_pieces_and_says_so_meanwhile() -> None:
    office = Office()
    for offset in range(RECORDS_PER_STEP + 1):
        office.commit("shop", offset=offset)
    office.restart()
    assert office.commit("shop") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert office.coordinator.list_groups() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    office.clock.advance(0)
    assert office.committed("shop") == RECORDS_PER_STEP


def test_a_partition_that_moves_while_it_is_loaded_is_let_go() -> None:
    office = Office()
    for offset in range(RECORDS_PER_STEP + 1):
        office.commit("shop", offset=offset)
    office.restart()
    office.coordinator.resign(office.place("shop"))
    office.clock.advance(0)
    assert office.commit("shop") is ErrorCode.NOT_COORDINATOR


def test_a_record_that_is_malformed_is_passed_over() -> None:
    office = Office()
    office.commit("shop", offset=1)
    partition = office.partitions[office.place("shop")]
    partition.append_records([Record(0, 0, b"\x00\x01\xff", b"x"), Record(0, 0, None, b"x"), Record(0, 0, b"", None)])
    office.commit("shop", offset=2)
    office.restart()
    assert office.committed("shop") == 2


def test_a_log_that_cannot_be_read_makes_its_groups_unavailable_and_no_others() -> None:
    office = Office()
    other = next(group_id for group_id in GROUPS if office.place(group_id) != office.place("shop"))
    office.commit("shop")
    office.commit(other)
    office.coordinator.resign(office.place("shop"))
    office.disk.fail("read", errno.EIO, times=5)
    office.lead(office.place("shop"))
    assert office.commit("shop") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert office.commit(other) == FINE


def test_groups_whose_log_could_not_be_opened_are_unavailable_and_the_others_are_listed() -> None:
    office = Office()
    other = next(group_id for group_id in GROUPS if office.place(group_id) != office.place("shop"))
    office.commit("shop")
    office.commit(other)
    office.coordinator.cannot_lead(office.place("shop"))
    assert office.commit("shop") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    listed = office.coordinator.list_groups()
    assert isinstance(listed, list) and [each.group_id for each in listed] == [other]
    office.lead(office.place("shop"))
    assert office.committed("shop") == 1


@pytest.mark.parametrize("at", [0, RECORDS_PER_STEP + 1])
def test_a_damaged_group_record_makes_its_groups_unavailable_and_no_others(at: int) -> None:
    """Found at once, or in a later step of the loading."""
    office = Office()
    other = next(group_id for group_id in GROUPS if office.place(group_id) != office.place("shop"))
    office.commit(other)
    for offset in range(at + 2):
        office.commit("shop", offset=offset)
    partition = office.partitions[office.place("shop")]
    segment = partition.log.segments.active
    place = segment.locate(at)
    office.coordinator.resign(office.place("shop"))
    content = bytearray(segment.file.read(0, segment.size))
    content[place + 8 : place + 12] = b"\x7f\x00\x00\x00"  # the length of a batch
    segment.file.truncate(0)
    segment.file.append([bytes(content)])
    office.lead(office.place("shop"))
    office.clock.advance(0)
    assert office.commit("shop") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert office.commit(other) == FINE
    listed = office.coordinator.list_groups()
    assert isinstance(listed, list) and [each.group_id for each in listed] == [other]


def test_a_command_whose_records_exceed_one_batch_is_refused_and_changes_nothing() -> None:
    text = "x" * 32_000
    many = tuple(OffsetToCommit("orders", index, Offset(1), LeaderEpoch(0), text) for index in range(2_200))
    rules = replace(AT_ONCE, max_commit_bytes=1 << 40, offset_metadata_max_bytes=1 << 20, memory_bytes=1 << 30)
    office = Office(rules)
    office.commit("shop", offset=7)
    assert office.submit("shop", CommitOffsets("", -1, None, many)).answer is ErrorCode.POLICY_VIOLATION
    assert office.committed("shop") == 7
    office.restart()
    assert office.committed("shop") == 7


def test_on_a_full_disk_nothing_is_acknowledged_and_nothing_changes() -> None:
    office = Office()
    office.commit("shop", offset=1)
    office.disk.fail("append", errno.ENOSPC)
    assert office.commit("shop", offset=2) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert office.committed("shop") == 1
    assert office.commit("shop", offset=3) == FINE
    office.restart()
    assert office.committed("shop") == 3


# ── what is remembered, and what is not ──────────────────────────────────────────────────────────────


def test_asking_for_groups_that_are_not_there_makes_none() -> None:
    office = Office()
    office.submit("ghost", Heartbeat("m", 1))
    office.submit("ghost", FetchOffsets())
    office.submit("ghost", Describe())
    office.join("ghost", "never-issued")
    assert office.coordinator.group_count == 0


def test_a_group_that_nobody_came_back_to_is_forgotten() -> None:
    office = Office()
    office.join("shop", id_required=True)
    assert office.coordinator.group_count == 1
    office.clock.advance(10_000)
    assert office.coordinator.group_count == 0


def test_a_deleted_group_is_forgotten_and_can_begin_again() -> None:
    office = Office()
    office.commit("shop")
    assert office.submit("shop", DeleteGroup()).answer is ErrorCode.NONE
    assert office.coordinator.group_count == 0
    office.restart()
    assert office.coordinator.group_count == 0
    answer = office.join("shop").answer
    assert isinstance(answer, JoinAnswer)
    assert answer.generation == 1


def test_there_are_only_so_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "MAX_GROUPS", 2)
    office = Office()
    assert office.commit("a") == office.commit("b") == FINE
    assert office.commit("c") is ErrorCode.POLICY_VIOLATION
    assert office.commit("a", offset=2) == FINE


def test_at_the_limit_an_unknown_group_can_still_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "MAX_GROUPS", 1)
    office = Office()
    assert office.commit("a") == FINE
    assert office.committed("ghost") is None
    assert office.submit("ghost", Heartbeat("m", 1)).answer is ErrorCode.UNKNOWN_MEMBER_ID
    assert office.submit("ghost", DeleteGroup()).answer is ErrorCode.GROUP_ID_NOT_FOUND
    assert phase_of(office, "ghost") is Phase.DEAD
    assert office.join("ghost").answer is ErrorCode.POLICY_VIOLATION
    assert office.coordinator.group_count == 1


@pytest.mark.parametrize("broken", ["encode", "partition"])
def test_a_command_that_fails_unexpectedly_is_answered_and_leaves_no_group(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office()

    def fails(*arguments: object, **named: object) -> None:
        raise ValueError("no such int")

    with monkeypatch.context() as patch:
        if broken == "encode":
            patch.setattr(led, "encode", fails)
        else:
            patch.setattr(Partition, "append_records", fails)
        assert [office.commit(f"shop-{number}") for number in range(3)] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 3
    assert office.coordinator.group_count == 0
    assert office.commit("shop-0") == FINE


def test_a_group_id_can_be_empty_but_not_too_long() -> None:
    office = Office()
    assert office.commit("") == FINE, "old consumers that assign themselves use it"
    assert office.commit("ä" * 127) == FINE
    assert office.commit("ä" * 128) is ErrorCode.INVALID_GROUP_ID


def test_offsets_of_a_deleted_topic_go_from_all_groups() -> None:
    office = Office()
    for group_id in GROUPS:
        office.commit(group_id, "orders")
        office.commit(group_id, "payments")
    office.coordinator.topic_deleted("orders")
    assert {office.committed(group_id, "orders") for group_id in GROUPS} == {None}
    assert {office.committed(group_id, "payments") for group_id in GROUPS} == {1}


def test_offsets_of_a_topic_that_was_deleted_right_before_a_crash_go_when_they_are_loaded() -> None:
    office = Office()
    office.commit("shop", "orders", offset=5)
    office.commit("shop", "payments", offset=6)
    office.topics.remove("orders")
    office.restart()
    office.topics.add("orders")
    assert office.committed("shop", "orders") is None
    assert office.committed("shop", "payments") == 6


@pytest.mark.parametrize("how", ["loading", "offline"])
def test_offsets_of_a_topic_that_is_deleted_and_made_again_before_its_groups_are_loaded_go(how: str) -> None:
    office = Office()
    for offset in range(RECORDS_PER_STEP + 1):
        office.commit("shop", "orders", offset=offset)
    office.commit("shop", "payments", offset=6)
    office.restart()
    if how == "offline":
        office.coordinator.cannot_lead(office.place("shop"))
        office.coordinator.cannot_lead(office.place("shop"))
    office.coordinator.topic_deleted("orders")
    if how == "offline":
        office.lead(office.place("shop"))
    while office.submit("shop", Describe()).answer is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        office.clock.advance(0)
    for _ in range(2):
        assert office.committed("shop", "orders") is None
        assert office.committed("shop", "payments") == 6
        office.restart()
        while office.submit("shop", Describe()).answer is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            office.clock.advance(0)


def test_a_group_whose_last_offset_is_deleted_is_there_until_it_is_deleted_or_expires() -> None:
    office = Office()
    for end in ("delete", "expire"):
        office.commit("shop")
        assert isinstance(office.submit("shop", DeleteOffsets((("orders", 0),))).answer, DeleteOffsetsAnswer)
        for _ in range(2):
            assert phase_of(office, "shop") is Phase.EMPTY
            listed = office.coordinator.list_groups()
            assert isinstance(listed, list) and [group.group_id for group in listed] == ["shop"]
            office.restart()
        if end == "delete":
            assert office.submit("shop", DeleteGroup()).answer is ErrorCode.NONE
        else:
            office.clock.advance(600_000)
        for _ in range(2):
            assert office.submit("shop", DeleteGroup()).answer is ErrorCode.GROUP_ID_NOT_FOUND
            assert office.coordinator.group_count == 0
            office.restart()


def test_offsets_of_many_groups_are_looked_at_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "EXPIRED_GROUPS_PER_STEP", 5)
    office = Office()
    for number in range(12):
        office.commit(f"old-{number}")
    office.clock.wall_ahead_ms += AT_ONCE.offsets_retention_ms
    left: list[Callable[[], None]] = []
    monkeypatch.setattr(office.clock, "call_soon", left.append)
    office.clock.advance(600_000)
    counts = [office.coordinator.group_count]
    while left:
        left.pop()()
        counts.append(office.coordinator.group_count)
    assert counts == [7, 2, 0]
    monkeypatch.undo()
    office.commit("new")
    office.clock.wall_ahead_ms += AT_ONCE.offsets_retention_ms
    office.clock.advance(600_000)
    assert office.coordinator.group_count == 0, "and the next look comes after the interval"


def test_a_look_at_offsets_that_is_under_way_ends_with_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "EXPIRED_GROUPS_PER_STEP", 1)
    office = Office()
    for number in range(3):
        office.commit(f"old-{number}")
    monkeypatch.setattr(office.clock, "call_soon", lambda callback: office.clock.call_later(10, callback))
    office.clock.advance(600_000)
    assert office.clock.next_timer_ms == 10
    office.coordinator.close()
    assert office.clock.next_timer_ms is None


def test_old_offsets_are_looked_for_regularly() -> None:
    office = Office()
    office.commit("shop")
    office.clock.advance(AT_ONCE.offsets_retention_ms - 600_000)
    assert office.coordinator.group_count == 1
    office.clock.advance(600_000)
    assert office.coordinator.group_count == 0
    office.coordinator.close()
    assert office.clock.next_timer_ms is None


def test_several_groups_are_asked_at_once_and_answered_in_order() -> None:
    office = Office()
    office.commit("a")
    answers: list[list[Description | ErrorCode]] = []
    office.coordinator.submit_all([("ghost", Describe()), ("a", Describe())], answers.append)
    office.coordinator.submit_all([], answers.append)
    first = [answer.phase for answer in answers[0] if isinstance(answer, Description)]
    assert first == [Phase.DEAD, Phase.EMPTY]
    assert answers[1] == []


def test_very_many_groups_are_asked_between_other_work() -> None:
    office = Office()
    answers: list[list[Description | ErrorCode]] = []
    many = [(f"ghost-{number}", Describe()) for number in range(coordinator.GROUPS_PER_STEP + 1)]
    office.coordinator.submit_all(many, answers.append)
    assert answers == []
    office.clock.advance(0)
    assert [len(answer) for answer in answers] == [len(many)]


def test_all_groups_are_listed_and_their_offsets_told() -> None:
    office = Office()
    office.settle("shop")
    office.commit("notebook", offset=4)
    listed = office.coordinator.list_groups()
    assert not isinstance(listed, ErrorCode)
    assert {(group.group_id, group.protocol_type, group.phase) for group in listed} == {
        ("shop", "consumer", Phase.STABLE),
        ("notebook", "", Phase.EMPTY),
    }
    assert [(group, str(name), offset) for group, name, offset in office.coordinator.committed()] == [
        ("notebook", "orders-0", 4)
    ]
