"""A broker's start: what it cannot stand on, it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mqcore.broker import METADATA_BATCH_BYTES, OFFSETS, CannotStart
from mqcore.controller import records
from mqcore.controller.facts import ConfigChanged, ResourceType
from mqcore.controller.image import METADATA_TOPIC
from mqcore.disk.lock import DirectoryLocked
from mqcore.log.clean_mark import CLEAN_MARK
from mqcore.wire.batches import stamp
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import LIMIT_BYTES, Record, build_batch
from tests.unit.mqcore.apis.stack import Stack

CREATE, ALTER, INCREMENTAL, GROW = 19, 33, 44, 37
FIND_COORDINATOR, LIST_GROUPS, COMMIT = 10, 16, 8
THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
LONG = "0:1," * 8_000


def test_metadata_that_it_does_not_understand_stop_the_start(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        metadata = stack.services.observer.partition
    batch = build_batch([Record(0, 0, None, b"\x01\x63\x00")])
    stamp(batch, metadata.log.end_offset, metadata.leader_epoch)
    with (tmp_path / str(metadata.name) / f"{0:020}.log").open("ab") as log:
        log.write(batch)
    (tmp_path / CLEAN_MARK).unlink()  # so that the end is looked for
    with pytest.raises(CannotStart, match="type 99"):
        Stack(tmp_path).__enter__()


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    with Stack(tmp_path), pytest.raises(DirectoryLocked):
        Stack(tmp_path).__enter__()


def throttled(**more: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": LONG, **more} for name in THROTTLED]


def test_requests_that_make_more_metadata_than_a_batch_holds_are_refused_and_harm_nobody(tmp_path: Path) -> None:
    many = METADATA_BATCH_BYTES // (len(THROTTLED) * len(LONG)) + 1
    names = [f"topic-{number}" for number in range(many)]
    topic = {"num_partitions": 1, "replication_factor": 1}
    with Stack(tmp_path) as stack:
        end = stack.services.observer.partition.log.end_offset
        huge = [{**topic, "name": name, "configs": throttled()} for name in names]
        made = stack.ask(CREATE, 7, topics=huge).topics
        assert {result.error_code for result in made} == {ErrorCode.POLICY_VIOLATION}
        assert str(METADATA_BATCH_BYTES) in made[0].error_message
        assert stack.services.observer.partition.log.end_offset == end

        stack.ask(CREATE, 7, topics=[{**topic, "name": name} for name in names])
        for key, more in ((ALTER, {}), (INCREMENTAL, {"config_operation": 0})):
            resources = [{"resource_type": 2, "resource_name": name, "configs": throttled(**more)} for name in names]
            answer = stack.ask(key, 1, resources=resources, validate_only=False)
            assert {result.error_code for result in answer.responses} == {ErrorCode.POLICY_VIOLATION}
            one = stack.ask(key, 1, resources=resources[:1], validate_only=False)
            assert one.responses[0].error_code == ErrorCode.NONE
    with Stack(tmp_path) as stack:
        assert set(stack.services.image.topics) == set(names)
        stack.create("one-more")


def test_a_metadata_log_with_a_batch_above_the_limit_starts(tmp_path: Path) -> None:
    """A broker without the limit could write one."""
    with Stack(tmp_path) as stack:
        stack.create("orders")
        fact = ConfigChanged(ResourceType.TOPIC, "orders", THROTTLED[0], LONG)
        _, value = records.encode(fact)
        count = LIMIT_BYTES // len(value) + 1
        stack.append(METADATA_TOPIC, [Record(0, 0, None, value)] * count)
    (tmp_path / CLEAN_MARK).unlink()
    with Stack(tmp_path) as stack:
        assert stack.services.image.topics["orders"].configs == {THROTTLED[0]: LONG}
        stack.create("payments")


def test_a_damaged_metadata_log_stops_the_start_with_its_reason(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        stack.create("orders")
    segment = tmp_path / f"{METADATA_TOPIC}-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[70] ^= 0xFF  # in the first batch; a clean start looks at the last one only
    segment.write_bytes(content)
    with pytest.raises(CannotStart, match="CRC"):
        Stack(tmp_path).__enter__()


@pytest.mark.parametrize("at", [8, 16, 70], ids=["length", "magic", "record"])
def test_a_damaged_group_log_makes_its_groups_unavailable_and_nothing_else(tmp_path: Path, at: int) -> None:
    groups = [f"group-{number}" for number in range(12)]
    with Stack(tmp_path, "offsets.topic.num.partitions=4") as stack:
        stack.create("orders")
        stack.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=groups)
        for group in groups:
            assert commit(stack, group) == ErrorCode.NONE
        index = next(index for index in range(4) if stack.services.partitions.get(OFFSETS, index).log.end_offset)  # type: ignore[union-attr]
        stack.append(OFFSETS, [Record(0, 0, b"\x00\x09", bytes(900_000))], index)  # of a kind that is passed over
        stack.append(OFFSETS, [Record(0, 0, b"\x00\x09", bytes(900_000))], index)
        stack.append(OFFSETS, [Record(0, 0, b"\x00\x09", b"last")], index)
    segment = tmp_path / f"{OFFSETS}-{index}" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[at : at + 4] = b"\x7f\xff\xff\xff"
    segment.write_bytes(content)
    with Stack(tmp_path) as stack:
        errors = {group: commit(stack, group) for group in groups}
        assert set(errors.values()) == {ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE}
        listed = stack.ask(LIST_GROUPS, 4)
        assert listed.error_code == ErrorCode.NONE
        assert {each.group_id for each in listed.groups} == {
            group for group, error in errors.items() if error == ErrorCode.NONE
        }


def test_groups_whose_log_cannot_be_opened_are_unavailable_and_the_others_work(tmp_path: Path) -> None:
    with Stack(tmp_path, "offsets.topic.num.partitions=4") as stack:
        stack.create("orders")
        groups = [f"group-{number}" for number in range(12)]
        stack.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=groups)
        for group in groups:
            commit(stack, group)
        index = next(index for index in range(4) if stack.services.partitions.get(OFFSETS, index).log.end_offset)  # type: ignore[union-attr]
    segment = tmp_path / f"{OFFSETS}-{index}" / f"{0:020}.log"
    segment.write_bytes(b"\xff" * segment.stat().st_size)
    with Stack(tmp_path) as stack:
        errors = {commit(stack, group) for group in groups}
        assert errors == {ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE}


def commit(stack: Stack, group: str) -> int:
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    answer = stack.ask(
        COMMIT, 7, group_id=group, generation_id_or_member_epoch=-1, topics=[{"name": "orders", "partitions": [part]}]
    )
    return int(answer.topics[0].partitions[0].error_code)
