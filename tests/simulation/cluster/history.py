"""Histories of whole brokers: clients write and read while brokers are killed, stopped, frozen and cut off.

`python -m tests.simulation cluster 17` repeats one, with its troubles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.conformance.history import History, anomalies
from tests.simulation.cluster.background import EndWatcher, OffsetCommitter, Operator, TopicChurner
from tests.simulation.cluster.clients import Reader, Writer
from tests.simulation.cluster.nodes import SimNode
from tests.simulation.cluster.troubles import loses_power, make_trouble, planned_troubles
from tests.simulation.cluster.world import ClusterWorld, simulate

TOPIC, PARTITIONS = "orders", 2
START_MS, HEAL_MS = 20_000, 60_000
SESSION_MS = (3000, 9000)
"""A cut ends a short session. A long one outlives it, so two leaders have the same clients for a while."""


Finite = Writer | OffsetCommitter | TopicChurner
Started = Finite | Reader | EndWatcher | Operator


class Cast(NamedTuple):
    """The clients of one history."""

    writers: list[Writer]
    reader: Reader
    ends: EndWatcher
    committer: OffsetCommitter
    churner: TopicChurner
    operator: Operator

    @property
    def everybody(self) -> list[Started]:
        return [*self.finite, self.reader, self.ends, self.operator]

    @property
    def finite(self) -> list[Finite]:
        """Those that stop when everything that they have begun is answered."""
        return [*self.writers, self.committer, self.churner]

    def start(self) -> None:
        for client in self.everybody:
            client.process.run(client.start)

    def stop(self) -> None:
        for client in self.finite:
            client.stop()

    def are_done(self) -> bool:
        return all(client.is_done for client in self.finite)

    def faults(self) -> list[str]:
        given_up = [line for writer in self.writers for line in writer.given_up]
        return [*given_up, *self.reader.faults, *self.ends.faults, *self.committer.faults]


def make_cast(world: ClusterWorld, seed: int) -> Cast:
    known = world.network, world.addresses
    place: Any = {"topic": TOPIC, "partitions": PARTITIONS}
    return Cast(
        [Writer(f"writer{number}", *known, seed + number, **place, pause_ms=30) for number in (1, 2)],
        Reader("reader", *known, seed + 9, **place),
        EndWatcher("ends", *known, seed + 10, **place),
        OffsetCommitter("group", *known, seed + 11, topic=TOPIC),
        TopicChurner("churner", *known, seed + 12, topic="passing"),
        Operator("operator", *known, seed + 13, adopting=world.adopting),
    )


async def run_history(seed: int, tell: Callable[[str], None] = lambda text: None) -> ClusterWorld:
    """Raises AssertionError if anything is wrong."""
    settings = [f"broker.session.timeout.ms={SESSION_MS[seed // 2 % len(SESSION_MS)]}"]
    settings += ["log.flush.interval.messages=1"] if loses_power(seed) else []
    world = ClusterWorld(seed, settings)
    clients = make_cast(world, seed)
    world.clients = [*clients.everybody]
    for node in world.nodes.values():
        node.start()
    await world.until(world.are_unfenced, "three brokers are active", START_MS)
    created: list[bool] = []
    reader = clients.reader
    reader.process.run(lambda: reader.create_topic(TOPIC, PARTITIONS, {}, lambda: created.append(True)))
    await world.until(lambda: bool(created), "the topic is created", START_MS)
    clients.start()
    began = world.now_ms
    for trouble in planned_troubles(seed):
        await world.pass_ms(max(0, began + trouble.at_ms - world.now_ms))
        tell(f"{world.now_ms:6} {trouble.kind} node {trouble.node} for {trouble.for_ms} ms")
        world.note(str(trouble))
        world.faults += 1
        await make_trouble(world, trouble)
        world.heal()
        world.check()
    await finish(world, clients)
    return world


async def finish(world: ClusterWorld, clients: Cast) -> None:
    """Without troubles everything is answered, every replica is in sync, and the books balance."""
    clients.stop()
    await world.until(clients.are_done, "every request is answered", HEAL_MS)
    await world.until(world.is_whole, "every replica is in sync", HEAL_MS)
    await world.until(lambda: not differences(world), "all copies are equal", HEAL_MS)
    acked = {sent: place for writer in clients.writers for sent, place in writer.acked.items()}
    reader = clients.reader

    def has_read() -> bool:
        return all(reader.next[place.partition] > place.offset for place in acked.values())

    await world.until(has_read, "the reader has seen every acknowledged record", HEAL_MS)
    assert not clients.faults(), clients.faults()
    assert clients.committer.committed and clients.churner.created and clients.ends.ends, "a client did nothing"
    history = History(acked=acked, log=dict(reader.seen), seen={"reader": reader.seen})
    found = anomalies(history)
    assert not found, found
    world.note(f"{sorted(acked.items())} acknowledged, {world.network.delivered} deliveries")


def differences(world: ClusterWorld) -> list[str]:
    """Partitions whose copies are not the same, byte by byte. A broker that lags may still show old metadata."""
    found = []
    for index in range(PARTITIONS):
        copies = {copy_of(node, index) for node in world.nodes.values()}
        if len(copies) > 1:
            found.append(f"the copies of partition {index} have {sorted(map(len, copies))} bytes")
    return found


def copy_of(node: SimNode, index: int) -> bytes:
    partition = None if node.broker is None else node.broker.partitions.get(TOPIC, index)
    if partition is None:
        return b"not open yet"
    assert not partition.is_offline, f"partition {index} is offline on {node.name}: {partition.offline_reason}"
    found = partition.log.read(0, 1 << 30, limit=partition.log.end_offset)
    return b"" if found is None else found.read()


def run_one(seed: int, tell: Callable[[str], None] = lambda text: None) -> ClusterWorld:
    """The world of one history that holds. Raises `AssertionError` otherwise."""
    worlds: list[ClusterWorld] = []

    async def story() -> None:
        worlds.append(await run_history(seed, tell))

    simulate(story)
    return worlds[0]
