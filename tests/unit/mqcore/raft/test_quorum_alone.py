"""A quorum of one: it leads at once, collects what comes during a sync, and survives what its disk does."""

from __future__ import annotations

import errno

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.log.errors import CorruptLog, LogFailed
from mqcore.partitions.waiting_requests import COMMITTED, StorageFault
from mqcore.raft import collected
from mqcore.raft.collected import CollectedRecords, bytes_at_most
from mqcore.raft.founding import UnusableFolder
from mqcore.raft.messages import Response, VoteRequest
from mqcore.raft.quorum_file import QUORUM_FILE
from mqcore.raft.quorum_log import FOLDER
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import BatchTooLarge, Record, build_batch
from tests.unit.mqcore.raft.quorum_nodes import ALONE, SYNC_MS, Cluster, Node, write_snapshot


def alone(seed: int = 1) -> tuple[Cluster, Node]:
    cluster = Cluster(seed, ALONE)
    return cluster, cluster.nodes[BrokerId(1)]


# ── one voter ────────────────────────────────────────────────────────────────────────────────────


def test_the_only_voter_leads_at_once_and_is_active_after_one_sync() -> None:
    cluster, node = alone()
    assert node.quorum.leader == 1 and not node.quorum.is_active
    cluster.run(SYNC_MS)
    assert node.quorum.is_active and node.syncs == 1


def test_the_only_voter_sees_after_a_restart_what_it_had_committed_before_it_leads_again() -> None:
    cluster, node = alone()
    cluster.commit(b"a", b"b")
    node.crash("power")
    node.start()
    assert list(node.values().values()) == [b"a", b"b"]
    first = node.quorum.epoch
    cluster.run(SYNC_MS)
    assert node.quorum.is_active and node.quorum.epoch == first == 2


def test_what_is_appended_during_a_sync_becomes_one_batch_at_the_promised_offsets() -> None:
    cluster, node = alone()
    cluster.run(SYNC_MS)
    syncs = node.syncs
    ends, outcomes = zip(*(node.append(b"%d" % number, b"more") for number in range(5)), strict=True)
    assert node.quorum.log.end_offset == ends[0], "only the first is in the log"
    cluster.run(2 * SYNC_MS)
    assert node.syncs == syncs + 2 and all(outcome == [COMMITTED] for outcome in outcomes)
    values = node.values()
    assert [values[end - 2] for end in ends] == [b"%d" % number for number in range(5)]


def test_a_batch_of_collected_records_has_a_limit_and_keeps_each_group_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collected, "OWN_BATCH_BYTES_MAX", 100)
    waiting = CollectedRecords()
    for value in (b"a" * 10, b"b" * 10, b"c" * 10):
        waiting.add([Record(0, 0, None, value)], 100)
    with pytest.raises(BatchTooLarge):
        waiting.add([Record(0, 0, None, b"d" * 100)], 100)
    assert [len(waiting.take()) for _ in range(3)] == [2, 1, 0] and waiting.count == 0


def test_the_estimate_of_a_batch_is_never_below_its_size() -> None:
    records = [Record(index, 1 << 60, None, b"x" * (index * 1000)) for index in range(100)]
    build_batch(records, limit_bytes=bytes_at_most(records))


def test_a_full_disk_refuses_an_append_and_the_next_one_may_succeed() -> None:
    cluster, node = alone()
    cluster.run(SYNC_MS)
    end, node.disk.capacity = node.quorum.log.end_offset, 0
    with pytest.raises(OSError, match="space"):
        node.append(b"lost")
    assert node.quorum.log.end_offset == end and node.quorum.is_active
    node.disk.capacity = None
    assert cluster.commit(b"kept") == end + 1


def test_collected_records_that_do_not_fit_on_the_disk_fail_and_a_new_epoch_begins() -> None:
    """Their offsets were promised, so the leader's state is ahead of its log: it must not go on in this epoch."""
    cluster, node = alone()
    cluster.run(SYNC_MS)
    epoch = node.quorum.epoch
    _, first = node.append(b"first")
    _, second = node.append(b"second")
    node.disk.capacity = 0
    cluster.run(SYNC_MS)
    assert isinstance(second[0], StorageFault) and not node.quorum.leads
    assert first == [COMMITTED] or isinstance(first[0], StorageFault)
    cluster.run(5_000)
    node.disk.capacity = None
    cluster.run(100)
    assert node.quorum.is_active and node.quorum.epoch > epoch and b"second" not in node.values().values()


def test_a_failed_sync_takes_the_quorum_offline_and_reports_the_disk() -> None:
    cluster, node = alone()
    node.sync_fault = LogFailed("log", "the disk is gone")
    _, outcomes = node.append(b"a")
    cluster.run(SYNC_MS)
    assert node.quorum.offline_reason and node.failures and isinstance(outcomes[0], StorageFault)
    with pytest.raises(OSError, match="the disk is gone"):
        node.append(b"b")
    answers: list[Response] = []
    node.quorum.receive(VoteRequest(LeaderEpoch(9), node.key, node.key, LeaderEpoch(9), 99, False), answers.append)
    assert answers[0].error is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_closed_quorum_fails_what_waits_and_takes_no_timer() -> None:
    _, node = alone()
    _, outcomes = node.append(b"a")
    node.quorum.close()
    assert isinstance(outcomes[0], StorageFault)
    assert node.quorum.log.flushed_offset == node.quorum.log.end_offset


def test_damage_in_the_log_of_the_only_voter_stops_the_start() -> None:
    """No other node has the records, so nothing may be cut without an operator."""
    cluster, node = alone()
    for number in range(5):
        cluster.commit(b"%d" % number)
    node.crash("kill")
    path = f"{FOLDER}/{0:020}.log"
    content = bytearray(node.disk.read_whole(path))
    content[len(content) // 2] ^= 1
    node.disk.replace(path, bytes(content))
    with pytest.raises(CorruptLog):
        node.start()


# ── folders ──────────────────────────────────────────────────────────────────────────────────────


def test_the_only_voter_takes_over_a_log_from_before_there_was_a_quorum() -> None:
    cluster, node = alone()
    cluster.commit(b"old")
    node.crash("kill")
    for name in node.disk.names(str(FOLDER)):
        if name == QUORUM_FILE or name.endswith(".checkpoint"):
            node.disk.remove(f"{FOLDER}/{name}")
    node.start()
    cluster.run(SYNC_MS)
    assert node.quorum.is_active and node.quorum.epoch == 2 and list(node.values().values()) == [b"old"]


def test_a_folder_with_a_later_snapshot_but_without_its_votes_is_refused() -> None:
    cluster, node = alone()
    end = cluster.commit(b"old")
    write_snapshot(node, end)
    node.crash("kill")
    node.disk.remove(f"{FOLDER}/{QUORUM_FILE}")
    with pytest.raises(UnusableFolder, match=QUORUM_FILE):
        node.start()


def test_a_folder_that_was_not_formatted_is_refused_in_a_cluster() -> None:
    cluster = Cluster(1)
    node = cluster.nodes[BrokerId(2)]
    node.crash("kill")
    node.disk = MemoryDisk()
    with pytest.raises(UnusableFolder, match="mqcore format"):
        node.start()


# ── snapshots ────────────────────────────────────────────────────────────────────────────────────


def test_a_snapshot_replaces_the_log_below_its_end() -> None:
    cluster, node = alone()
    end = cluster.commit(b"a", b"b")
    before = node.quorum.bytes_since_snapshot
    write_snapshot(node, end)
    assert node.quorum.snapshot == (end, node.quorum.epoch)
    assert node.quorum.log.start_offset == end and node.quorum.bytes_since_snapshot == 0 < before
    cluster.commit(b"c")
    node.crash("power")
    node.start()
    assert list(node.quorum.read_snapshot()) == [b"image"] and list(node.values().values()) == [b"c"]


def test_a_snapshot_that_does_not_fit_on_the_disk_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    cluster, node = alone()
    end = cluster.commit(b"a")
    node.disk.capacity = 0
    write_snapshot(node, end)
    assert node.quorum.log.start_offset == 0 and "snapshot not written" in caplog.text
    node.disk.capacity = None
    write_snapshot(node, end)
    assert node.quorum.log.start_offset == end


def test_a_disk_error_that_is_not_a_full_disk_stops_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, node = alone()
    cluster.run(SYNC_MS)

    def broken(path: str, content: bytes) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    node.quorum.resign()
    monkeypatch.setattr(node.disk, "replace", broken)
    cluster.run(5_000)
    assert node.quorum.offline_reason and node.failures
