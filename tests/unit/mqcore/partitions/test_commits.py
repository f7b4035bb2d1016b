"""When a batch is committed and visible, and in which order waiting requests are notified."""

from __future__ import annotations

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import LeaderEpoch, Offset
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.waiting_requests import COMMITTED, CommitOutcome, NotLeader
from tests.unit.mqcore.partitions.helpers import (
    DURABLE,
    PartitionHarness,
    batch,
    offsets_of,
)


def test_watchers_and_commits_already_see_the_new_high_watermark() -> None:
    harness = PartitionHarness(DURABLE)
    seen: list[int] = []
    harness.partition.watchers.add("fetch", lambda: seen.append(harness.partition.high_watermark))
    _, end = offsets_of(harness.append())
    harness.partition.when_committed(Offset(end), lambda outcome: seen.append(harness.partition.high_watermark))
    harness.sync()
    assert seen == [end, end]


def test_with_flush_messages_one_nothing_is_visible_or_committed_before_the_sync() -> None:
    harness = PartitionHarness(DURABLE)
    outcomes: list[CommitOutcome] = []
    _, end = offsets_of(harness.append())
    harness.partition.when_committed(Offset(end), outcomes.append)
    assert harness.partition.high_watermark == 0 and harness.fetch(0) == [] and not outcomes
    harness.sync()
    assert harness.partition.high_watermark == 1 and harness.fetch(0) == [0] and outcomes == [COMMITTED]


def test_without_flush_messages_a_batch_is_visible_at_once() -> None:
    """The negative control of the test above."""
    harness = PartitionHarness()
    outcomes: list[CommitOutcome] = []
    _, end = offsets_of(harness.append())
    harness.partition.when_committed(Offset(end), outcomes.append)
    assert harness.fetch(0) == [0] and outcomes == [COMMITTED] and not harness.requested


def test_with_flush_messages_one_acknowledged_batches_survive_a_power_loss() -> None:
    for seed in range(20):
        harness = PartitionHarness(DURABLE, MemoryDisk(seed))
        harness.append(batch(b"kept"))
        harness.sync()
        harness.append(batch(b"never acknowledged"))
        assert isinstance(harness.disk, MemoryDisk)
        harness.disk.crash("power")
        assert harness.open().high_watermark >= 1, seed


def test_a_sync_is_requested_after_flush_messages_records() -> None:
    harness = PartitionHarness({"flush.messages": "3"})
    harness.append(batch(b"a", b"b"))
    assert not harness.requested
    harness.append()
    assert harness.requested


def test_an_uncommitted_duplicate_waits_like_the_first_copy() -> None:
    harness = PartitionHarness(DURABLE)
    outcomes: list[CommitOutcome] = []
    harness.append(batch(producer=7, sequence=0))
    harness.append(batch(producer=7, sequence=1))
    _, end = offsets_of(harness.append(batch(producer=7, sequence=0)))
    harness.partition.when_committed(Offset(end), outcomes.append)
    assert not outcomes
    harness.sync()
    assert outcomes == [COMMITTED]


def test_switching_to_flush_messages_one_hides_no_visible_record() -> None:
    harness = PartitionHarness()
    harness.append()
    harness.partition.reconfigure(LogConfig.from_settings(DURABLE))
    assert harness.fetch(0) == [0]
    harness.append()
    assert harness.fetch(1) == []
    harness.sync()
    assert harness.fetch(1) == [1]


def test_switching_flush_messages_off_releases_waiting_requests() -> None:
    harness = PartitionHarness(DURABLE)
    outcomes: list[CommitOutcome] = []
    _, end = offsets_of(harness.append())
    harness.partition.when_committed(Offset(end), outcomes.append)
    harness.partition.reconfigure(LogConfig())
    assert outcomes == [COMMITTED]


def test_when_a_topic_is_deleted_waiting_requests_learn_that_this_broker_no_longer_leads_it() -> None:
    harness = PartitionHarness(DURABLE)
    outcomes: list[CommitOutcome] = []
    _, end = offsets_of(harness.append())
    harness.partition.when_committed(Offset(end), outcomes.append)
    harness.partition.when_durable(outcomes.append)
    harness.partition.stand_down("the topic was deleted")
    harness.partition.when_committed(Offset(end), outcomes.append)  # a request that comes later
    assert outcomes == [NotLeader("the topic was deleted")] * 3


def test_a_request_of_an_earlier_leader_epoch_fails_even_if_its_offset_is_reached_later() -> None:
    harness = PartitionHarness(DURABLE)
    outcomes: list[CommitOutcome] = []
    _, end = offsets_of(harness.append())
    for acks in (1, -1):
        harness.partition.when_acknowledged(Offset(end), acks, outcomes.append)
    harness.lead(LeaderEpoch(5))
    harness.sync()
    assert outcomes == [NotLeader("another leader epoch has begun")] * 2
    assert harness.partition.is_acknowledged(Offset(end), 1)
