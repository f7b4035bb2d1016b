"""The start of a broker, and the partitions and groups that it cannot open."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from mqcore.broker import METADATA_BATCH_BYTES
from mqcore.controller import records
from mqcore.controller.commands import CreateTopics, DeleteTopics, NewTopic
from mqcore.controller.facts import ConfigChanged, ResourceType
from mqcore.disk.lock import DirectoryLocked
from mqcore.disk.port import Disk
from mqcore.disk.posix import PosixDisk, PosixFile
from mqcore.housekeeping import retry_steps
from mqcore.identity import METADATA_TOPIC
from mqcore.identity import OFFSETS_TOPIC as OFFSETS
from mqcore.log.checkpoints import RECOVERY_POINTS
from mqcore.log.clean_mark import CLEAN_MARK
from mqcore.log.log import Log
from mqcore.metadata_log import CannotStart
from mqcore.wire.batches import stamp
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import OWN_BATCH_BYTES_MAX, Record, build_batch
from tests.unit.mqcore.apis.running_broker import RunningBroker

CREATE, ALTER, INCREMENTAL, GROW = 19, 33, 44, 37
FIND_COORDINATOR, LIST_GROUPS, COMMIT, OFFSET_FETCH = 10, 16, 8, 9
THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
LONG = "0:1," * 8_000


def test_a_metadata_record_of_an_unknown_type_stops_the_start_with_its_reason(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as stack:
        metadata = stack.services.quorum
    batch = build_batch([Record(0, 0, None, b"\x01\x63\x00")])
    stamp(batch, metadata.log.end_offset, metadata.epoch)
    with (tmp_path / str(metadata.name) / f"{0:020}.log").open("ab") as log:
        log.write(batch)
    (tmp_path / CLEAN_MARK).unlink()  # so that the end of the log is searched
    with pytest.raises(CannotStart, match="type 99"):
        RunningBroker(tmp_path).__enter__()


def test_a_data_folder_in_use_is_not_opened(tmp_path: Path) -> None:
    with RunningBroker(tmp_path), pytest.raises(DirectoryLocked):
        RunningBroker(tmp_path).__enter__()


def throttled(**more: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": LONG, **more} for name in THROTTLED]


def test_a_request_with_more_metadata_than_a_batch_holds_is_rejected_without_effect(tmp_path: Path) -> None:
    many = METADATA_BATCH_BYTES // (len(THROTTLED) * len(LONG)) + 1
    names = [f"topic-{number}" for number in range(many)]
    topic = {"num_partitions": 1, "replication_factor": 1}
    with RunningBroker(tmp_path) as stack:
        end = stack.services.quorum.log.end_offset
        huge = [{**topic, "name": name, "configs": throttled()} for name in names]
        made = stack.request(CREATE, 7, topics=huge).topics
        assert {result.error_code for result in made} == {ErrorCode.POLICY_VIOLATION}
        assert str(METADATA_BATCH_BYTES) in made[0].error_message
        assert stack.services.quorum.log.end_offset == end

        stack.request(CREATE, 7, topics=[{**topic, "name": name} for name in names])
        for key, more in ((ALTER, {}), (INCREMENTAL, {"config_operation": 0})):
            resources = [{"resource_type": 2, "resource_name": name, "configs": throttled(**more)} for name in names]
            answer = stack.request(key, 1, resources=resources, validate_only=False)
            assert {result.error_code for result in answer.responses} == {ErrorCode.POLICY_VIOLATION}
            one = stack.request(key, 1, resources=resources[:1], validate_only=False)
            assert one.responses[0].error_code == ErrorCode.NONE
    with RunningBroker(tmp_path) as stack:
        assert set(stack.services.image.topics) == set(names)
        stack.create_topic("one-more")


def test_a_broker_starts_with_a_metadata_batch_above_the_limit(tmp_path: Path) -> None:
    """An older broker without the limit could write such a batch."""
    with RunningBroker(tmp_path) as stack:
        stack.create_topic("orders")
        fact = ConfigChanged(ResourceType.TOPIC, "orders", THROTTLED[0], LONG)
        _, value = records.encode(fact)
        count = OWN_BATCH_BYTES_MAX // len(value) + 1
        stack.append_batch(METADATA_TOPIC, [Record(0, 0, None, value)] * count)
    (tmp_path / CLEAN_MARK).unlink()
    with RunningBroker(tmp_path) as stack:
        assert stack.services.image.topics["orders"].configs == {THROTTLED[0]: LONG}
        stack.create_topic("payments")


def test_a_damaged_metadata_log_stops_the_start_with_its_reason(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as stack:
        stack.create_topic("orders")
    segment = tmp_path / f"{METADATA_TOPIC}-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[70] ^= 0xFF  # in the first batch, because a clean start checks only the last one
    segment.write_bytes(content)
    with pytest.raises(CannotStart, match="CRC"):
        RunningBroker(tmp_path).__enter__()


@pytest.mark.parametrize("at", [8, 16, 70], ids=["length", "magic", "record"])
def test_a_damaged_group_log_makes_only_its_own_groups_unavailable_at_the_start(tmp_path: Path, at: int) -> None:
    groups = [f"group-{number}" for number in range(12)]
    with RunningBroker(tmp_path, "offsets.topic.num.partitions=4") as stack:
        stack.create_topic("orders")
        stack.request(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=groups)
        for group in groups:
            assert commit(stack, group) == ErrorCode.NONE
        index = next(index for index in range(4) if stack.services.partitions.get(OFFSETS, index).log.end_offset)  # type: ignore[union-attr]
        stack.append_batch(OFFSETS, [Record(0, 0, b"\x00\x09", bytes(900_000))], index)  # a kind that is skipped
        stack.append_batch(OFFSETS, [Record(0, 0, b"\x00\x09", bytes(900_000))], index)
        stack.append_batch(OFFSETS, [Record(0, 0, b"\x00\x09", b"last")], index)
    segment = tmp_path / f"{OFFSETS}-{index}" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[at : at + 4] = b"\x7f\xff\xff\xff"
    segment.write_bytes(content)
    with RunningBroker(tmp_path) as stack:
        errors = {group: commit(stack, group) for group in groups}
        assert set(errors.values()) == {ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE}
        listed = stack.request(LIST_GROUPS, 4)
        assert listed.error_code == ErrorCode.NONE
        assert {each.group_id for each in listed.groups} == {
            group for group, error in errors.items() if error == ErrorCode.NONE
        }


def test_groups_whose_log_cannot_be_opened_are_unavailable(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, "offsets.topic.num.partitions=4") as stack:
        stack.create_topic("orders")
        groups = [f"group-{number}" for number in range(12)]
        stack.request(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=groups)
        for group in groups:
            commit(stack, group)
        index = next(index for index in range(4) if stack.services.partitions.get(OFFSETS, index).log.end_offset)  # type: ignore[union-attr]
    segment = tmp_path / f"{OFFSETS}-{index}" / f"{0:020}.log"
    segment.write_bytes(b"\xff" * segment.stat().st_size)
    with RunningBroker(tmp_path) as stack:
        errors = {commit(stack, group) for group in groups}
        assert errors == {ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE}


def test_a_topic_is_not_created_again_before_its_old_offsets_are_durably_removed(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as stack:
        stack.request(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["shop"])
        stack.create_topic("orders")
        assert commit(stack, "shop") == ErrorCode.NONE
        (offsets,) = [
            one for one in stack.services.partitions if one.topic == OFFSETS and one.appender.produced_records
        ]
        seen: list[tuple[bool, bool]] = []

        def on_change() -> None:
            if "orders" in stack.services.image.topics:
                seen.append((offsets.log.flushed_offset == offsets.log.end_offset, offsets.log.end_offset > 1))

        stack.services.observer.add_listener(on_change)
        stack.submit(DeleteTopics((("orders", None),)), CreateTopics((NewTopic("orders", uuid4(), 1, 1),)))
        assert seen == [(True, True)]
        assert fetched(stack, "shop") == -1


def fetched(stack: RunningBroker, group: str) -> int:
    answer = stack.request(OFFSET_FETCH, 1, group_id=group, topics=[{"name": "orders", "partition_indexes": [0]}])
    return int(answer.topics[0].partitions[0].committed_offset)


def commit(stack: RunningBroker, group: str) -> int:
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    answer = stack.request(
        COMMIT, 7, group_id=group, generation_id_or_member_epoch=-1, topics=[{"name": "orders", "partitions": [part]}]
    )
    return int(answer.topics[0].partitions[0].error_code)


# ── a partition that cannot be opened ───────────────────────────────────────────────────────────


def leader_error(stack: RunningBroker, topic: str) -> int:
    (found,) = stack.request(3, 12, topics=[{"topic_id": UUID(int=0), "name": topic}]).topics
    return int(found.partitions[0].error_code)


def spoiled(tmp_path: Path) -> None:
    """Corrupt the partition `orders-0`, and make the next start verify everything."""
    with RunningBroker(tmp_path) as stack:
        stack.create_topic("orders")
        stack.append_records("orders", 10)
    log = tmp_path / "orders-0" / f"{0:020}.log"
    content = bytearray(log.read_bytes())
    content[80] ^= 0xFF
    log.write_bytes(content)
    for name in (CLEAN_MARK, RECOVERY_POINTS):
        (tmp_path / name).unlink()


def test_a_corrupt_topic_can_be_deleted_and_created_again(tmp_path: Path) -> None:
    spoiled(tmp_path)
    with RunningBroker(tmp_path) as stack:
        assert leader_error(stack, "orders") == ErrorCode.LEADER_NOT_AVAILABLE
        (gone,) = stack.request(20, 6, topics=[{"name": "orders", "topic_id": UUID(int=0)}], timeout_ms=1000).responses
        assert gone.error_code == ErrorCode.NONE
        stack.create_topic("orders")
        assert leader_error(stack, "orders") == ErrorCode.NONE
        stack.append_records("orders", 3)
        assert not stack.services.partitions.open_failures
    with RunningBroker(tmp_path) as stack:  # after a clean stop
        assert stack.services.partitions.is_clean
        partition = stack.services.partitions.get("orders", 0)
        assert partition is not None and partition.high_watermark == 3
        assert not [path for path in tmp_path.iterdir() if path.name.endswith("-stray")]


@pytest.mark.parametrize("topic", ["orders", OFFSETS])
def test_a_topic_created_without_descriptors_is_served_when_there_are_some(
    topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = PosixDisk.open

    def refuse(self: PosixDisk, path: str, *, create: bool = False) -> PosixFile:
        if path.startswith(topic):
            raise OSError(errno.EMFILE, "Too many open files")
        return whole(self, path, create=create)

    with RunningBroker(tmp_path) as stack:
        monkeypatch.setattr(PosixDisk, "open", refuse)
        if topic == OFFSETS:
            stack.request(10, 4, key_type=0, coordinator_keys=["group"])
        else:
            stack.create_topic(topic)
        assert leader_error(stack, topic) == ErrorCode.LEADER_NOT_AVAILABLE
        list(retry_steps(stack.services.partitions, stack.broker.assignments.open_partition))
        assert leader_error(stack, topic) == ErrorCode.LEADER_NOT_AVAILABLE
        monkeypatch.undo()
        list(retry_steps(stack.services.partitions, stack.broker.assignments.open_partition))
        assert leader_error(stack, topic) == ErrorCode.NONE
        if topic == OFFSETS:
            assert stack.services.groups.list_groups() == []  # no groups, and no error
        else:
            stack.append_records(topic, 1)


def test_a_partition_that_cannot_be_opened_does_not_stop_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunningBroker(tmp_path) as stack:
        stack.create_topic("orders", 3)
    whole = Log.open.__func__  # type: ignore[attr-defined]

    def failing(cls: type[Log], disk: Disk, directory: str, *arguments: Any, **settings: Any) -> Any:
        if directory == "orders-1":
            raise KeyError("a bug")
        return whole(cls, disk, directory, *arguments, **settings)

    monkeypatch.setattr(Log, "open", classmethod(failing))
    with RunningBroker(tmp_path) as stack:
        stack.append_records("orders", 1, 2)
        assert list(stack.services.partitions.open_failures) == [("orders", 1)]
