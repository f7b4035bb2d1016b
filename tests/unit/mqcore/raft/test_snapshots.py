"""Snapshots of the metadata, and the control records in them."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.voters_record.v0.data import VotersRecord
from kio.serial import entity_reader

from mqcore.disk.memory import Crashed, MemoryDisk, When
from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.raft import control_records
from mqcore.raft.messages import SnapshotId, VoterKey, voter_set
from mqcore.raft.snapshots import (
    RECORDS_PER_BATCH,
    DamagedSnapshot,
    Snapshot,
    Snapshots,
    decode_snapshot,
    encode_snapshot,
    snapshot_name,
)
from mqcore.wire.batches import BadBatch
from mqcore.wire.records import Record

FOLDER = "__cluster_metadata-0"
ONE, TWO = (VoterKey(BrokerId(number), UUID(int=number)) for number in (1, 2))
VOTERS = voter_set([ONE, TWO])
OLD, NEW = SnapshotId(5, LeaderEpoch(1)), SnapshotId(12, LeaderEpoch(3))


def snapshot_of(snapshot: SnapshotId, count: int = 3) -> Snapshot:
    return Snapshot(snapshot, VOTERS, [Record(2 + index, 9, b"key", b"%d" % index) for index in range(count)])


def folder(seed: int = 0) -> MemoryDisk:
    disk = MemoryDisk(seed)
    disk.make_directory(FOLDER)
    disk.sync_directory("")
    return disk


def written(disk: MemoryDisk, *ids: SnapshotId) -> Snapshots:
    snapshots = Snapshots(disk, FOLDER)
    for snapshot in ids:
        snapshots.write(snapshot_of(snapshot), 9)
    return snapshots


def read_by_kio(entity: type[Any], content: bytes) -> Any:
    value, size = entity_reader(entity)(content, 0)
    assert size == len(content)
    return value


# ── control records ──────────────────────────────────────────────────────────────────────────────


def test_control_records_are_kafkas() -> None:
    change = control_records.leader_change(ONE.id, [ONE, TWO], [TWO])
    read = read_by_kio(LeaderChangeMessage, change)
    assert (read.version, read.leader_id) == (0, 1)
    assert [voter.voter_id for voter in read.voters] == [1, 2]
    assert [voter.voter_id for voter in read.granting_voters] == [2]
    voters = read_by_kio(VotersRecord, control_records.encode_voters(VOTERS))
    assert [(voter.voter_id, voter.voter_directory_id) for voter in voters.voters] == [tuple(ONE), tuple(TWO)]
    assert read_by_kio(SnapshotHeaderRecord, control_records.snapshot_header(9)).version == 0
    assert read_by_kio(SnapshotFooterRecord, control_records.snapshot_footer()).version == 0


@given(
    st.lists(
        st.builds(VoterKey, st.integers(0, 9).map(BrokerId), st.uuids().filter(bool)), unique_by=lambda key: key.id
    )
)
def test_a_voter_set_is_read_back(keys: list[VoterKey]) -> None:
    assert control_records.decode_voters(control_records.encode_voters(voter_set(keys))) == voter_set(keys)


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\1\1\0", b"\0\0\xff\xff\xff\xff\x7f", b"\0\0\2\0\0"])
def test_a_malformed_voters_record_is_refused(value: bytes) -> None:
    with pytest.raises(BadBatch):
        control_records.decode_voters(value)


# ── content ──────────────────────────────────────────────────────────────────────────────────────


def test_a_snapshot_is_named_by_its_end_and_epoch() -> None:
    assert snapshot_name(NEW) == "00000000000000000012-0000000003.checkpoint"


@pytest.mark.parametrize("count", [0, 1, RECORDS_PER_BATCH, 2 * RECORDS_PER_BATCH + 1])
def test_a_snapshot_is_read_back(count: int) -> None:
    snapshot = snapshot_of(NEW, count)
    assert decode_snapshot(NEW, encode_snapshot(snapshot, 9)) == snapshot


def test_a_snapshot_with_any_byte_missing_or_changed_is_damaged() -> None:
    content = encode_snapshot(snapshot_of(NEW), 9)
    for end in range(len(content)):
        with pytest.raises(BadBatch):
            decode_snapshot(NEW, content[:end])
    with pytest.raises(BadBatch):
        decode_snapshot(NEW, content + b"\0")
    uncovered = 0
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1
        try:
            assert decode_snapshot(NEW, bytes(changed)).records is not None
            uncovered += 1
        except BadBatch:
            pass
    assert uncovered <= 4 * 12, "only base offset and leader epoch of a batch are outside of its CRC"


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def test_a_start_uses_the_newest_valid_snapshot_and_removes_what_is_unfinished() -> None:
    disk = folder()
    snapshots = written(disk, OLD, NEW)
    snapshots.write_part(SnapshotId(20, LeaderEpoch(4)), 0, b"half")
    assert snapshots.open_newest() == snapshot_of(NEW)
    assert disk.names(FOLDER) == [snapshot_name(OLD), snapshot_name(NEW)]
    disk.replace(f"{FOLDER}/{snapshot_name(NEW)}", b"damaged")
    assert snapshots.open_newest() == snapshot_of(OLD)
    assert disk.names(FOLDER) == [snapshot_name(OLD)]
    assert Snapshots(folder(), FOLDER).open_newest() is None


def test_older_snapshots_are_removed() -> None:
    snapshots = written(folder(), OLD, NEW)
    snapshots.remove_before(NEW)
    assert snapshots.ids() == [NEW]


def test_a_fetched_snapshot_gets_its_name_only_if_it_is_complete() -> None:
    source, target = written(folder(), NEW), Snapshots(folder(), FOLDER)
    position, size = 0, 1
    while position < size:
        data, size = source.read_part(NEW, position, 100)
        target.write_part(NEW, position, data)
        if position + len(data) < size:
            with pytest.raises(DamagedSnapshot):
                target.finish(NEW)
        position += len(data)
    assert target.ids() == []
    assert target.finish(NEW) == snapshot_of(NEW)
    assert target.ids() == [NEW]


def test_a_part_that_is_sent_again_replaces_what_follows() -> None:
    content = encode_snapshot(snapshot_of(NEW), 9)
    target = Snapshots(folder(), FOLDER)
    for start, end in ((0, 100), (100, 200), (50, 150), (150, len(content))):
        target.write_part(NEW, start, content[start:end])
    assert target.finish(NEW) == snapshot_of(NEW)


@pytest.mark.parametrize("when", ["before", "during", "after"])
@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("is_fetched", [False, True])
def test_a_crash_at_any_call_leaves_the_old_snapshot_or_the_new(
    when: When, kind: Literal["kill", "power"], is_fetched: bool
) -> None:
    content, found = encode_snapshot(snapshot_of(NEW), 9), set()
    for nth in range(1, 20):
        for seed in range(8):
            disk = folder(seed)
            snapshots = written(disk, OLD)
            disk.crash_at(nth, when)
            try:
                if is_fetched:
                    snapshots.write_part(NEW, 0, content[:100])
                    snapshots.write_part(NEW, 100, content[100:])
                    snapshots.finish(NEW)
                else:
                    snapshots.write(snapshot_of(NEW), 9)
                disk.crash(kind)
                assert snapshots.ids()[-1] == NEW, "it was durable when the call returned"
            except Crashed:
                disk.crash(kind)
            newest = Snapshots(disk, FOLDER).open_newest()
            assert newest is not None and newest == snapshot_of(newest.id)
            found.add(newest.id)
    assert found == {OLD, NEW}
