"""The metadata log of one node: what it tells the machine, and what it remembers over a crash."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

import pytest

from mqcore.disk.memory import Crashed, MemoryDisk, When
from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.log.epochs import EpochEnd
from mqcore.raft.messages import SnapshotId, VoterKey, voter_set
from mqcore.raft.quorum_log import FOLDER, QuorumLog, QuorumLogGap
from mqcore.raft.snapshots import snapshot_name
from mqcore.raft.suspicion import SUSPECT_FILE
from mqcore.wire.batches import HEADER_BYTES, BadBatch
from mqcore.wire.records import Record

ONE, TWO = (VoterKey(BrokerId(number), UUID(int=number)) for number in (1, 2))


def record(value: bytes = b"x") -> Record:
    return Record(0, 0, None, value)


def log_of(disk: MemoryDisk, *epochs: int) -> QuorumLog:
    """A durable log with one record of each of these epochs."""
    log = QuorumLog(disk, 0)
    for epoch in epochs:
        log.append_records([record()], LeaderEpoch(epoch), 0)
    log.sync()
    return log


def damage(disk: MemoryDisk, batch: int) -> None:
    """Flip a bit of a batch. All batches of `log_of` have the same size."""
    path = f"{FOLDER}/{0:020}.log"
    content = bytearray(disk.read_whole(path))
    size = len(content) // len(list(QuorumLog(disk, 0).headers(0)))
    content[batch * size + HEADER_BYTES] ^= 1
    disk.replace(path, bytes(content))


def test_an_empty_folder_has_neither_records_nor_voters() -> None:
    log = QuorumLog(MemoryDisk(), 0)
    assert (log.start, log.end, log.durable, log.last_epoch, log.snapshot) == (0, 0, 0, -1, None)
    assert log.voters == {} and log.voters_offset == -1


def test_appended_records_are_durable_after_a_sync() -> None:
    disk = MemoryDisk()
    log = QuorumLog(disk, 0)
    assert log.append_records([record(), record()], LeaderEpoch(3), 0) == 2
    assert (log.end, log.durable, log.last_epoch) == (2, 0, 3)
    log.sync()
    assert log.durable == 2
    disk.crash("power")
    reopened = QuorumLog(disk, 0)
    assert (reopened.end, reopened.durable, reopened.last_epoch) == (2, 2, 3)


def test_a_follower_appends_batches_as_they_are_and_refuses_a_gap() -> None:
    leader, follower = log_of(MemoryDisk(), 1, 1, 2), QuorumLog(MemoryDisk(), 0)
    follower.append_fetched(leader.read(0), 0)
    assert follower.read(0) == leader.read(0)
    assert follower.end_of(1) == EpochEnd(1, 2)
    with pytest.raises(BadBatch, match="begins at 0, expected 3"):
        follower.append_fetched(leader.read(0), 0)
    damaged = bytearray(log_of(MemoryDisk(), 1, 1, 2, 2).read(3))
    damaged[-1] ^= 1
    with pytest.raises(BadBatch, match="wrong CRC"):
        follower.append_fetched(bytes(damaged), 0)
    assert follower.end == 3


def test_an_incomplete_batch_at_the_end_of_a_response_is_left_out() -> None:
    leader, follower = log_of(MemoryDisk(), 1, 1), QuorumLog(MemoryDisk(), 0)
    follower.append_fetched(leader.read(0)[:-1], 0)
    assert follower.end == 1


def test_the_voter_set_is_the_newest_in_the_log_and_a_cut_brings_the_old_one_back() -> None:
    disk = MemoryDisk()
    log = log_of(disk, 1)
    log.append_voters(voter_set([ONE]), LeaderEpoch(1), 0)
    log.append_voters(voter_set([ONE, TWO]), LeaderEpoch(1), 0)
    log.sync()
    assert (log.voters, log.voters_offset) == (voter_set([ONE, TWO]), 2)
    assert QuorumLog(disk, 0).voters == voter_set([ONE, TWO])
    log.truncate(2)
    assert (log.voters, log.voters_offset) == (voter_set([ONE]), 1)
    assert QuorumLog(disk, 0).voters == voter_set([ONE])


def test_the_leader_change_record_does_not_change_the_voters() -> None:
    log = log_of(MemoryDisk(), 1)
    log.append_leader_change(ONE.id, [ONE], LeaderEpoch(2), 0)
    assert log.last_epoch == 2 and log.voters == {}


@pytest.mark.parametrize("end", [3, 5])
def test_a_snapshot_replaces_what_is_below_it(end: int) -> None:
    disk = MemoryDisk()
    log = log_of(disk, 1, 1, 2)
    log.append_voters(voter_set([ONE]), LeaderEpoch(2), 0)
    log.append_voters(voter_set([ONE, TWO]), LeaderEpoch(3), 0)
    log.sync()
    log.write_snapshot(end, [record(b"image")], 0)
    for view in (log, QuorumLog(disk, 0)):
        assert (view.start, view.end, view.last_epoch) == (end, 5, 3)
        assert view.snapshot == SnapshotId(end, LeaderEpoch(2 if end == 3 else 3))
        assert view.voters == voter_set([ONE, TWO])
        assert view.end_of(3) == EpochEnd(3, 5)
        assert view.epoch_at(end - 1) == view.snapshot.epoch
    assert log.snapshots.read(SnapshotId(end, log.epoch_at(end - 1))).voters == (
        {} if end == 3 else voter_set([ONE, TWO])
    )


def test_a_log_that_is_all_snapshot_knows_where_its_epochs_end() -> None:
    log = log_of(MemoryDisk(), 1, 3)
    log.write_snapshot(2, [], 0)
    assert [log.end_of(epoch) for epoch in (-1, 1, 3, 4)] == [(-1, -1), (1, 2), (3, 2), (-1, -1)]


def test_a_log_whose_snapshot_is_missing_does_not_open() -> None:
    disk = MemoryDisk()
    log = log_of(disk, 1, 1)
    log.write_snapshot(2, [], 0)
    disk.remove(f"{FOLDER}/{snapshot_name(SnapshotId(2, LeaderEpoch(1)))}")
    with pytest.raises(QuorumLogGap, match="begins at offset 2"):
        QuorumLog(disk, 0)


# ── damage ───────────────────────────────────────────────────────────────────────────────────────


def test_a_log_with_valid_batches_behind_a_damaged_one_is_cut_and_suspect() -> None:
    disk = MemoryDisk()
    log_of(disk, 1, 1, 1, 1)
    damage(disk, 1)
    log = QuorumLog(disk, 0)
    assert (log.end, log.suspect_to) == (1, 4)
    assert QuorumLog(disk, 0).suspect_to == 4, "also after another start"


def test_a_log_is_suspect_until_it_has_durably_passed_its_former_end() -> None:
    disk = MemoryDisk()
    log_of(disk, 1, 1, 1, 1)
    damage(disk, 1)
    log = QuorumLog(disk, 0)
    for _ in range(3):
        assert log.suspect_to == 4
        log.append_records([record()], LeaderEpoch(2), 0)
    assert log.suspect_to == 4
    log.sync()
    assert log.suspect_to == 0 and not disk.exists(f"{FOLDER}/{SUSPECT_FILE}")
    assert QuorumLog(disk, 0).suspect_to == 0


def test_a_damaged_last_batch_looks_like_a_torn_write_and_is_cut() -> None:
    disk = MemoryDisk()
    log_of(disk, 1, 1, 1)
    damage(disk, 2)
    log = QuorumLog(disk, 0)
    assert (log.end, log.suspect_to) == (2, 0)


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_crash_at_any_change_of_the_cut_leaves_the_log_suspect(when: When) -> None:
    crashes = 0
    for nth in range(1, 40):
        disk = MemoryDisk(nth)
        log_of(disk, 1, 1, 1, 1)
        damage(disk, 1)
        disk.crash_at(nth, when)
        try:
            QuorumLog(disk, 0)
        except Crashed:
            crashes += 1
        disk.crash("power")
        log = QuorumLog(disk, 0)
        assert (log.end, log.suspect_to) == (1, 4)
    assert crashes > 10


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_crash_during_the_append_of_several_batches_never_stops_the_start(
    when: When, kind: Literal["kill", "power"]
) -> None:
    """A power loss may tear an earlier batch and keep a later one, which is what damage looks like."""
    source = QuorumLog(MemoryDisk(), 0)
    for number in range(5):
        source.append_records([record(b"%d" % number * 300)], LeaderEpoch(2), 0)
    suspects = 0
    for seed in range(60):
        disk = MemoryDisk(seed)
        log = log_of(disk)
        disk.crash_at(1 + seed % 6, when)
        try:
            log.append_fetched(source.read(0), 0)
            log.sync()
        except Crashed:
            pass
        disk.crash(kind)
        reopened = QuorumLog(disk, 0)
        assert reopened.read(0) == source.read(0)[: len(reopened.read(0))]
        suspects += reopened.suspect_to > 0
    assert (suspects > 0) is (kind == "power")
