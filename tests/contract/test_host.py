"""The contract of the host: the same suite for the real clock and threads and for the simulated ones."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

import pytest

from mqcore.host import Chance, Clock, SystemChance, SystemClock, SystemThreads, Threads
from tests.simulation.broker.simulated_world import SeededChance
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.inline_threads import InlineThreads

WAIT_SECONDS_MAX = 10


class Bench(Protocol):
    clock: Clock

    def run(self, story: Coroutine[Any, Any, None]) -> None: ...


class RealTime:
    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.clock: Clock = SystemClock(self._runner.get_loop())

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        with self._runner:
            self._runner.run(asyncio.wait_for(story, WAIT_SECONDS_MAX))


class VirtualTime:
    def __init__(self) -> None:
        self._virtual = VirtualClock()
        self.clock: Clock = self._virtual

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        async def with_turns() -> None:
            task = asyncio.create_task(story)
            while not task.done():
                self._virtual.advance(1)
                await asyncio.sleep(0)
            task.result()

        asyncio.run(asyncio.wait_for(with_turns(), WAIT_SECONDS_MAX))


@pytest.fixture(params=[RealTime, VirtualTime])
def bench(request: pytest.FixtureRequest) -> Bench:
    made: Bench = request.param()
    return made


def test_timers_run_in_the_order_of_their_times(bench: Bench) -> None:
    events: list[str] = []

    async def story() -> None:
        done = asyncio.Event()
        bench.clock.call_later(30, done.set)
        bench.clock.call_later(20, lambda: events.append("later"))
        bench.clock.call_later(5, lambda: events.append("sooner"))
        bench.clock.call_soon(lambda: events.append("next turn"))
        assert events == []
        await done.wait()

    bench.run(story())
    assert events == ["next turn", "sooner", "later"]


def test_a_cancelled_timer_does_not_run(bench: Bench) -> None:
    events: list[str] = []

    async def story() -> None:
        done = asyncio.Event()
        bench.clock.call_later(5, lambda: events.append("cancelled")).cancel()
        bench.clock.call_soon(lambda: events.append("cancelled")).cancel()
        bench.clock.call_later(10, done.set)
        await done.wait()

    bench.run(story())
    assert events == []


def test_a_sleep_lasts_at_least_its_time_on_all_clocks(bench: Bench) -> None:
    async def story() -> None:
        before, seconds = bench.clock.now(), bench.clock.seconds()
        await bench.clock.sleep(0.02)
        after = bench.clock.now()
        assert after.monotonic_ms - before.monotonic_ms >= 19  # both are whole milliseconds
        assert bench.clock.seconds() - seconds >= 0.019
        assert after.wall_ms >= before.wall_ms

    bench.run(story())


def test_a_timeout_ends_a_body_that_takes_longer_and_no_other(bench: Bench) -> None:
    async def story() -> None:
        async with bench.clock.timeout(5):
            await bench.clock.sleep(0.001)
        with pytest.raises(TimeoutError):
            async with bench.clock.timeout(0.005):
                await bench.clock.sleep(5)

    bench.run(story())


@pytest.mark.parametrize("threads", [SystemThreads(), InlineThreads()], ids=["threads", "inline"])
def test_a_pool_returns_results_and_exceptions(threads: Threads) -> None:
    with threads.pool(2, "test") as pool:
        assert list(pool.map(abs, [-1, -2, 3])) == [1, 2, 3]
        failed = pool.submit(int, "x")
        with pytest.raises(ValueError, match="x"):
            failed.result()


@pytest.mark.parametrize("chance", [SystemChance(), SeededChance(1)], ids=["system", "seeded"])
def test_ids_do_not_repeat(chance: Chance) -> None:
    assert len({chance.new_uuid() for _ in range(1000)}) == 1000
