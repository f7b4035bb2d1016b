"""Whole brokers as simulated processes: each has its own clock and disk, and is killed, frozen and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from random import Random
from typing import Any, Literal

from mqcore.broker import Broker
from mqcore.config import parse_config
from mqcore.disk.memory import MemoryDisk
from mqcore.host import World
from mqcore.topic_defaults import check_default
from tests.simulation.broker.simulated_world import NoLock, SeededChance
from tests.simulation.cluster.network import NodeNetwork, SimNetwork
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.inline_threads import InlineThreads

RUNNING: ContextVar[SimProcess | None] = ContextVar("the process whose code runs", default=None)


class SimProcess:
    """Code with a clock and connections of its own. Its tasks end with it."""

    def __init__(self, name: str, network: SimNetwork) -> None:
        self.name = name
        self.clock = VirtualClock()
        self.is_paused = False
        self.network = network
        self.tasks: dict[asyncio.Task[Any], None] = {}  # in their order: a set would have one of addresses in memory

    def run(self, action: Callable[[], None]) -> None:
        token = RUNNING.set(self)
        try:
            action()
        finally:
            RUNNING.reset(token)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        made: list[asyncio.Task[Any]] = []
        self.run(lambda: made.append(asyncio.ensure_future(work)))
        return made[0]

    def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.tasks = {}
        self.clock.drop_timers()
        self.network.died(self)


def tasks_belong_to_processes(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
    """A task factory: a task belongs to the process whose code has made it."""
    task = asyncio.Task(work, loop=loop, **more)
    process = RUNNING.get()
    if process is not None:
        process.tasks[task] = None
        task.add_done_callback(lambda done: process.tasks.pop(done, None))
    return task


class SimNode:
    """A machine with a disk, on which a broker runs, or none."""

    def __init__(self, number: int, network: SimNetwork, seed: int, settings: list[str]) -> None:
        self.number = number
        self.disk = MemoryDisk(Random(seed))
        self.chance = SeededChance(seed)
        self.network = network
        self.settings = settings
        self.process: SimProcess | None = None
        self.broker: Broker | None = None
        self.started: asyncio.Task[None] | None = None
        self.missed_ms = 0
        self.monotonic_ms = VirtualClock().monotonic_ms

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def is_running(self) -> bool:
        return self.process is not None

    def start(self) -> None:
        assert self.process is None
        process = self.process = SimProcess(self.name, self.network)
        process.clock.monotonic_ms = self.monotonic_ms
        world = World(
            process.clock,
            self.disk,
            NodeNetwork(self.network, process),
            InlineThreads(),
            self.chance,
            lock_folder=NoLock,
            open_files_max=100_000,
        )

        async def run() -> None:
            self.broker = Broker(parse_config("", self.settings, check_default), world)
            await self.broker.start()

        self.started = process.spawn(run())

    def stop(self) -> asyncio.Task[None] | None:
        """Begin a controlled shutdown. None if the broker has not started yet, so its process can be killed."""
        if self.process is None or self.broker is None or self.started is None or not self.started.done():
            return None
        return self.process.spawn(self.broker.stop())

    def fill_disk(self, free_bytes: int) -> None:
        self.disk.capacity = self.disk.used_bytes() + free_bytes

    def crash(self, how: Literal["kill", "power"]) -> None:
        assert self.process is not None
        self.monotonic_ms = self.process.clock.monotonic_ms
        self.process.end()
        self.disk.crash(how)
        self.process = self.broker = self.started = None

    def advance(self, ms: int) -> None:
        if self.process is None:
            self.monotonic_ms += ms
        elif self.process.is_paused:
            self.missed_ms += ms
        else:
            clock = self.process.clock
            self.process.run(lambda: clock.advance(ms))

    def freeze(self) -> None:
        if self.process is not None:
            self.process.is_paused, self.missed_ms = True, 0

    def resume(self) -> None:
        """Its clock went on while it did not run, so all its timers are late at once."""
        if self.process is not None and self.process.is_paused:
            self.process.is_paused = False
            clock, missed = self.process.clock, self.missed_ms
            clock.monotonic_ms += missed
            self.process.run(lambda: clock.advance(0))
