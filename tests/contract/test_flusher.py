"""What partitions rely on when they request a sync, checked on the real flusher and on the one for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import pytest

from mqcore.host import SystemClock, SystemThreads
from mqcore.metrics import Cell
from mqcore.partitions.flusher import Flusher
from mqcore.partitions.waiting_requests import COMMITTED, CommitOutcome
from tests.unit.mqcore.partitions.folder import HeldFlusher
from tests.unit.mqcore.partitions.helpers import DURABLE, PartitionHarness, offsets_of


class Syncs(Protocol):
    """A flusher, and how a test lets it run."""

    flusher: Flusher

    async def run(self) -> None: ...


class RealSyncs:
    def __init__(self) -> None:
        clock = SystemClock(asyncio.get_running_loop())
        self.flusher = Flusher(lambda fault: None, Cell(), clock, SystemThreads())

    async def run(self) -> None:
        """Every request is served once a sync that was requested last has ended."""
        last = PartitionHarness(DURABLE)
        last.append()
        self.flusher.request_sync(last.partition)
        while last.partition.high_watermark == 0 or self.flusher._running:
            await asyncio.sleep(0)


class HeldSyncs:
    def __init__(self) -> None:
        self.held = HeldFlusher()
        self.flusher: Flusher = self.held

    async def run(self) -> None:
        self.held.run_requested()


def check(make: Callable[[], Syncs], scenario: Callable[[Syncs, PartitionHarness], Awaitable[None]]) -> None:
    async def main() -> None:
        syncs = make()
        harness = PartitionHarness(DURABLE)
        harness.partition._request_sync = syncs.flusher.request_sync
        await asyncio.wait_for(scenario(syncs, harness), 10)
        if not isinstance(syncs, HeldSyncs):
            syncs.flusher.close()

    asyncio.run(main())


both = pytest.mark.parametrize("make", [RealSyncs, HeldSyncs])


@both
def test_a_requested_sync_makes_the_log_durable_and_releases_waiting_requests(make: Callable[[], Syncs]) -> None:
    async def scenario(syncs: Syncs, harness: PartitionHarness) -> None:
        outcomes: list[CommitOutcome] = []
        _, end = offsets_of(harness.append())
        harness.partition.when_committed(harness.partition.log_end_offset, outcomes.append)
        assert not outcomes
        await syncs.run()
        assert outcomes == [COMMITTED] and harness.partition.log.flushed_offset == end

    check(make, scenario)


@both
def test_a_request_during_the_same_turn_is_not_lost(make: Callable[[], Syncs]) -> None:
    async def scenario(syncs: Syncs, harness: PartitionHarness) -> None:
        for _ in range(3):
            harness.append()
        await syncs.run()
        assert harness.partition.high_watermark == 3

    check(make, scenario)


@both
def test_the_log_of_an_offline_partition_is_not_synced(make: Callable[[], Syncs]) -> None:
    """The name of its folder may belong to another topic."""

    async def scenario(syncs: Syncs, harness: PartitionHarness) -> None:
        harness.append()
        harness.partition.stand_down("the topic was deleted")
        await syncs.run()
        assert harness.partition.log.flushed_offset == 0

    check(make, scenario)
