"""What a machine may expect of its journal: one suite for the one in memory and for the one in a partition."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

import pytest

from mqcore.coordination.journal import Journal, JournalFault
from mqcore.coordination.partition_journal import PartitionJournal, replay
from mqcore.disk.memory import MemoryDisk
from mqcore.identity import LeaderEpoch, TopicPartition
from mqcore.log.config import LogConfig
from mqcore.log.log import Log
from mqcore.partitions.partition import Partition
from mqcore.partitions.producers import Producers
from tests.unit.mqcore.coordination.virtual import MemoryJournal, VirtualClock

Then = Callable[[JournalFault | None], None]


def kept(fact: str) -> bool:
    """Facts in capitals are only said, not kept."""
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
    """Commits wait when the topic acknowledges only what is durable, until somebody syncs."""

    def __init__(self) -> None:
        clock, producers = VirtualClock(), Producers()
        self._disk = MemoryDisk()
        config = LogConfig.from_settings({})
        log = Log.open(
            self._disk, "t-0", config, now_ms=clock.wall_ms(), clean=False, recovery_point=0, observer=producers
        )
        name = TopicPartition("t", 0)
        self._partition = Partition(name, UUID(int=1), log, producers, LeaderEpoch(0), lambda partition: None)
        self.journal = PartitionJournal[str](
            self._partition, lambda fact: (b"key", fact.encode()) if kept(fact) else None, clock
        )

    def hold(self) -> None:
        self._partition.log.sync()
        self._partition.reconfigure(LogConfig.from_settings({"flush.messages": "1"}))

    def release(self) -> None:
        self._partition.log.sync()
        self._partition.synced()

    def break_(self) -> None:
        self._disk.fail("append", errno.ENOSPC)

    def facts(self) -> list[str]:
        records = replay(self._partition, 0, self._partition.log.end_offset)
        return [record.value.decode() for record in records if record.value is not None]


@pytest.fixture(params=[InMemory, InPartition])
def bench(request: pytest.FixtureRequest) -> Bench:
    made: Bench = request.param()
    return made


def test_facts_are_kept_in_order_and_those_that_are_only_said_are_not(bench: Bench) -> None:
    bench.journal.append(["a", "B", "c"])
    bench.journal.append(["d"])
    assert bench.facts() == ["a", "c", "d"]


def test_the_end_grows_with_what_is_kept_and_with_nothing_else(bench: Bench) -> None:
    first = bench.journal.append(["a"])
    assert bench.journal.append([]) == bench.journal.append(["SAID"]) == first
    assert bench.journal.append(["b"]) > first


def test_what_is_committed_is_told_at_once(bench: Bench) -> None:
    told: list[JournalFault | None] = []
    bench.journal.when_committed(bench.journal.append(["a"]), told.append)
    assert told == [None]


def test_what_is_not_committed_yet_is_told_when_it_is(bench: Bench) -> None:
    bench.hold()
    told: list[str] = []
    first, second = bench.journal.append(["a"]), bench.journal.append(["b"])
    bench.journal.when_committed(first, lambda fault: told.append("first"))
    bench.journal.when_committed(second, lambda fault: told.append("second"))
    assert told == []
    bench.release()
    assert told == ["first", "second"]


def test_an_answer_that_rests_on_nothing_new_waits_for_what_was_kept_before(bench: Bench) -> None:
    bench.hold()
    bench.journal.append(["a"])
    told: list[JournalFault | None] = []
    bench.journal.when_committed(bench.journal.append([]), told.append)
    assert told == []
    bench.release()
    assert told == [None]


def test_facts_that_cannot_be_kept_leave_nothing_behind(bench: Bench) -> None:
    end = bench.journal.append(["a"])
    bench.break_()
    with pytest.raises(JournalFault):
        bench.journal.append(["b", "c"])
    assert bench.facts() == ["a"]
    assert bench.journal.append([]) == end
