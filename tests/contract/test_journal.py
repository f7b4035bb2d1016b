"""The contract of a journal: the same suite for the fake in memory and for the real one in a partition."""

from __future__ import annotations

import errno
from typing import Protocol
from uuid import UUID

import pytest

from mqcore.coordination.journal import Journal, JournalFault
from mqcore.coordination.partition_journal import PartitionJournal, replay
from mqcore.disk.memory import MemoryDisk
from mqcore.identity import LeaderEpoch, TopicPartition
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.partition import Partition
from mqcore.partitions.producers import Producers
from mqcore.partitions.waiting_requests import COMMITTED, CommitOutcome
from tests.unit.mqcore.coordination.virtual import MemoryJournal, VirtualClock
from tests.unit.mqcore.partitions.helpers import lead_alone


def kept(fact: str) -> bool:
    """Facts in capital letters are not kept."""
    return not fact.isupper()


class Bench(Protocol):
    journal: Journal[str]

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def break_(self) -> None: ...

    def facts(self) -> list[str]: ...


class InMemory:
    def __init__(self) -> None:
        self.journal = self._journal = MemoryJournal[str](kept)

    def hold(self) -> None:
        self._journal.hold()

    def release(self) -> None:
        self._journal.release()

    def break_(self) -> None:
        self._journal.broken = True

    def facts(self) -> list[str]:
        return self._journal.kept


class InPartition:
    """`hold` makes the topic acknowledge only durable records, so commits wait until `release` syncs."""

    def __init__(self) -> None:
        clock, producers = VirtualClock(), Producers()
        self._disk = MemoryDisk()
        config = LogConfig.from_settings({})
        log = Log.open(
            self._disk, "t-0", config, now_ms=clock.wall_ms(), clean=False, recovery_point=0, observer=producers
        )
        name = TopicPartition("t", 0)
        self._partition = Partition(name, UUID(int=1), log, producers, lambda partition: None)
        lead_alone(self._partition, LeaderEpoch(0))
        self.journal = PartitionJournal[str](
            self._partition, lambda fact: (b"key", fact.encode()) if kept(fact) else None, clock
        )

    def hold(self) -> None:
        self._partition.log.sync()
        self._partition.reconfigure(LogConfig.from_settings({"flush.messages": "1"}))

    def release(self) -> None:
        self._partition.log.sync()
        self._partition.on_synced()

    def break_(self) -> None:
        self._disk.fail("append", errno.ENOSPC)

    def facts(self) -> list[str]:
        records = replay(self._partition, 0, self._partition.log.end_offset)
        return [record.value.decode() for record in records if record.value is not None]


@pytest.fixture(params=[InMemory, InPartition])
def bench(request: pytest.FixtureRequest) -> Bench:
    made: Bench = request.param()
    return made


def test_kept_facts_are_stored_in_order_and_others_are_not(bench: Bench) -> None:
    bench.journal.append(["a", "B", "c"])
    bench.journal.append(["d"])
    assert bench.facts() == ["a", "c", "d"]


def test_the_end_grows_with_kept_facts_only(bench: Bench) -> None:
    first = bench.journal.append(["a"])
    assert bench.journal.append([]) == bench.journal.append(["NOT KEPT"]) == first
    assert bench.journal.append(["b"]) > first


def test_a_committed_end_is_reported_immediately(bench: Bench) -> None:
    outcomes: list[CommitOutcome] = []
    bench.journal.when_committed(bench.journal.append(["a"]), outcomes.append)
    assert outcomes == [COMMITTED]


def test_an_uncommitted_end_is_reported_when_it_is_committed(bench: Bench) -> None:
    bench.hold()
    committed: list[str] = []
    first, second = bench.journal.append(["a"]), bench.journal.append(["b"])
    bench.journal.when_committed(first, lambda outcome: committed.append("first"))
    bench.journal.when_committed(second, lambda outcome: committed.append("second"))
    assert committed == []
    bench.release()
    assert committed == ["first", "second"]


def test_the_current_end_waits_for_earlier_facts(bench: Bench) -> None:
    bench.hold()
    bench.journal.append(["a"])
    outcomes: list[CommitOutcome] = []
    bench.journal.when_committed(bench.journal.append([]), outcomes.append)
    assert outcomes == []
    bench.release()
    assert outcomes == [COMMITTED]


def test_facts_that_cannot_be_stored_leave_nothing_behind(bench: Bench) -> None:
    end = bench.journal.append(["a"])
    bench.break_()
    with pytest.raises(JournalFault):
        bench.journal.append(["b", "c"])
    assert bench.facts() == ["a"]
    assert bench.journal.append([]) == end
