"""Three whole brokers, their clients and their troubles on one event loop, in virtual time."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from random import Random
from uuid import UUID

from mqcore.disk.memory import MemoryDisk
from mqcore.formatting import format_folder
from mqcore.identity import BrokerId
from tests.simulation.cluster.checks import ClusterChecks
from tests.simulation.cluster.clients import Client
from tests.simulation.cluster.network import SimNetwork
from tests.simulation.cluster.nodes import SimNode, tasks_belong_to_processes

CLIENT_PORT, CONTROLLER_PORT = 9092, 9192
HOST = "node"
CLUSTER_ID = "c2ltdWxhdGVkLWNsdXN0ZXI"
NUMBERS = (1, 2, 3)
CHECK_EVERY_MS = 250
TURNS_PER_MS = 4
"""Turns of the event loop in each millisecond: enough for work that waits for other work."""


class ClusterWorld:
    """Same seed, same history."""

    def __init__(self, seed: int, settings: list[str] | None = None) -> None:
        self.random = Random(seed)
        self.network = SimNetwork(Random(seed + 1))
        self.now_ms = self.faults = 0
        self.clients: list[Client] = []
        self.trace = hashlib.sha256()
        self.addresses = {number: (f"{HOST}{number}", CLIENT_PORT) for number in NUMBERS}
        voters = ",".join(f"{number}@{HOST}{number}:{CONTROLLER_PORT}" for number in NUMBERS)
        self.nodes = {
            number: SimNode(
                number, self.network, self.random.randrange(2**32), self._settings(number, voters, settings)
            )
            for number in NUMBERS
        }
        self.checks = ClusterChecks()
        self.adopting: dict[int, UUID] = {}
        """Nodes that have lost their disk, with the ids of their new folders: an operator lets them vote again."""
        for number in self.nodes:
            self._format(number, is_founder=number == NUMBERS[0])

    def _format(self, number: int, *, is_founder: bool) -> UUID:
        directory_id = self.nodes[number].chance.new_uuid()
        format_folder(self.nodes[number].disk, CLUSTER_ID, number, directory_id, founder=is_founder)
        return directory_id

    def _settings(self, number: int, voters: str, more: list[str] | None) -> list[str]:
        return [
            f"node.id={number}",
            "log.dirs=simulated",
            f"listeners=PLAINTEXT://{HOST}{number}:{CLIENT_PORT},CONTROLLER://{HOST}{number}:{CONTROLLER_PORT}",
            "allow.unauthenticated.listeners=true",
            "controller.listener.names=CONTROLLER",
            f"controller.quorum.voters={voters}",
            "default.replication.factor=3",
            "min.insync.replicas=2",
            "replica.lag.time.max.ms=3000",
            "log.cleaner.enable=false",
            "offsets.topic.num.partitions=3",
            "offsets.topic.replication.factor=3",
            *(more or ()),
        ]

    def note(self, what: str) -> None:
        self.trace.update(f"{self.now_ms} {what}\n".encode())

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    async def pass_ms(self, ms: int) -> None:
        for _ in range(ms):
            self.now_ms += 1
            self.network.now_ms = self.now_ms
            for node in self.nodes.values():
                node.advance(1)
            for client in self.clients:
                client.process.run(lambda clock=client.process.clock: clock.advance(1))  # type: ignore[misc]
            self.network.run_due()
            for _ in range(TURNS_PER_MS):
                await asyncio.sleep(0)
            if self.now_ms % CHECK_EVERY_MS == 0:
                self.check()

    async def until(self, holds: Callable[[], bool], what: str, ms_max: int) -> None:
        end = self.now_ms + ms_max
        while not holds():
            assert self.now_ms < end, f"{what}: not after {ms_max} ms"
            await self.pass_ms(5)

    # ── troubles ─────────────────────────────────────────────────────────────────────────────────

    def isolate(self, number: int, *, inbound: bool = True, outbound: bool = True) -> None:
        """Cut a node off from the other nodes; clients still reach it."""
        name = self.nodes[number].name
        for other in self.nodes.values():
            if other.number != number:
                self.network.cut |= {(other.name, name)} if inbound else set()
                self.network.cut |= {(name, other.name)} if outbound else set()

    def lose_disk(self, number: int) -> None:
        """The node starts again with an empty folder, which has another directory id."""
        node = self.nodes[number]
        node.crash("kill")
        node.disk = MemoryDisk(Random(self.random.randrange(2**32)))
        self.adopting[number] = self._format(number, is_founder=False)
        node.start()

    def heal(self) -> None:
        """A broker whose disk has failed ends, as its process would, and is started again."""
        self.network.cut.clear()
        for node in self.nodes.values():
            node.disk.capacity = None
            node.resume()
            if node.broker is not None and node.broker.failed.done():
                node.crash("kill")
            if not node.is_running:
                node.start()

    def check(self) -> None:
        for node in self.nodes.values():
            if node.started is not None and node.started.done():
                node.started.result()
            self.checks.check(node)

    # ── what the brokers know ────────────────────────────────────────────────────────────────────

    def are_unfenced(self) -> bool:
        """Whether every broker knows that all brokers are active."""
        brokers = [node.broker for node in self.nodes.values()]
        return all(
            broker is not None and all(broker.observer.image.is_active(BrokerId(number)) for number in NUMBERS)
            for broker in brokers
        )

    def is_whole(self) -> bool:
        """Whether all brokers are active, all nodes vote, and every broker knows that all replicas are in sync."""
        if self.adopting or not self.are_unfenced():
            return False
        images = [node.broker.observer.image for node in self.nodes.values() if node.broker is not None]
        return all(set(partition.isr) == set(NUMBERS) for image in images for _, partition in image.partitions())


def simulate(story: Callable[[], object]) -> None:
    """Run a coroutine function on a loop of its own."""

    async def run() -> None:
        logging.getLogger("mqcore").addHandler(logging.NullHandler())  # without a handler, warnings go to the terminal
        asyncio.get_running_loop().set_task_factory(tasks_belong_to_processes)
        await story()  # type: ignore[misc]

    asyncio.run(run())
