"""Histories of whole brokers: clients write and read while brokers are killed, frozen and cut off.

python -m tests.simulation.cluster.history 17         one seed, with its troubles
python -m tests.simulation.cluster.history 0:100      a range; stops at the first failure
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from tests.conformance.history import History, anomalies
from tests.simulation.cluster.clients import Reader, Writer
from tests.simulation.cluster.nodes import SimNode
from tests.simulation.cluster.world import ClusterWorld, simulate

TOPIC, PARTITIONS = "orders", 2
TROUBLE_MS = 12_000
START_MS, HEAL_MS = 20_000, 60_000


class Trouble(NamedTuple):
    at_ms: int
    kind: str
    node: int
    for_ms: int


def planned_troubles(seed: int) -> list[Trouble]:
    """At most one node is in trouble at a time, so a majority always works."""
    random, at, troubles = Random(seed), 300, []
    while at < TROUBLE_MS:
        kind = random.choice(("kill", "kill", "power", "freeze", "cut", "cut in", "cut out"))
        length = random.choice((50, 400, 1500, 3000, 6000))
        troubles.append(Trouble(at, kind, random.randrange(1, 4), length))
        at += length + random.randrange(1500)
    return troubles


async def run_history(seed: int, tell: Callable[[str], None] = lambda text: None) -> ClusterWorld:
    """Raises AssertionError if anything is wrong."""
    world = ClusterWorld(seed)
    clients = (world.network, world.addresses)
    writers = [
        Writer(f"writer{number}", *clients, seed + number, topic=TOPIC, partitions=PARTITIONS, pause_ms=30)
        for number in (1, 2)
    ]
    reader = Reader("reader", *clients, seed + 9, topic=TOPIC, partitions=PARTITIONS)
    world.clients = [*writers, reader]
    for node in world.nodes.values():
        node.start()
    await world.until(world.are_unfenced, "three brokers are active", START_MS)
    created: list[bool] = []
    reader.process.run(
        lambda: reader.create_topic(TOPIC, PARTITIONS, {"flush.messages": "1"}, lambda: created.append(True))
    )
    await world.until(lambda: bool(created), "the topic is created", START_MS)
    for writer in writers:
        writer.process.run(writer.start)
    reader.process.run(reader.start)
    began = world.now_ms
    for trouble in planned_troubles(seed):
        await world.pass_ms(max(0, began + trouble.at_ms - world.now_ms))
        tell(f"{world.now_ms:6} {trouble.kind} node {trouble.node} for {trouble.for_ms} ms")
        world.note(str(trouble))
        make_trouble(world, trouble)
        await world.pass_ms(trouble.for_ms)
        world.heal()
        world.check()
    await finish(world, writers, reader)
    return world


def make_trouble(world: ClusterWorld, trouble: Trouble) -> None:
    node = world.nodes[trouble.node]
    match trouble.kind:
        case "kill" | "power" as how:
            node.crash(how)
        case "freeze":
            node.freeze()
        case "cut":
            world.isolate(trouble.node)
        case "cut in":
            world.isolate(trouble.node, outbound=False)
        case "cut out":
            world.isolate(trouble.node, inbound=False)


async def finish(world: ClusterWorld, writers: list[Writer], reader: Reader) -> None:
    """Without troubles everything is answered, every replica is in sync, and the books balance."""
    for writer in writers:
        writer.stop()
    await world.until(lambda: all(writer.is_done for writer in writers), "every write is answered", HEAL_MS)
    await world.until(world.are_unfenced, "three brokers are active again", HEAL_MS)

    def in_sync() -> bool:
        reader.process.run(lambda: reader.learn_leaders(TOPIC, lambda: None))
        return len(reader.in_sync) == PARTITIONS and all(isr == [1, 2, 3] for isr in reader.in_sync.values())

    await world.until(in_sync, "every replica is in sync", HEAL_MS)
    await world.until(lambda: not differences(world), "all copies are equal", HEAL_MS)
    acked = {sent: place for writer in writers for sent, place in writer.acked.items()}

    def has_read() -> bool:
        return all(reader.next[place.partition] > place.offset for place in acked.values())

    await world.until(has_read, "the reader has seen every acknowledged record", HEAL_MS)
    assert not [line for writer in writers for line in writer.given_up], writers[0].given_up
    assert not reader.faults, reader.faults
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


def run_one(seed: int, tell: Callable[[str], None] = lambda text: None) -> str:
    """The trace of one history."""
    worlds: list[ClusterWorld] = []

    async def story() -> None:
        worlds.append(await run_history(seed, tell))

    simulate(story)
    return worlds[0].trace.hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.cluster.history")
    parser.add_argument("seeds", help="one seed, or FIRST:LAST")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition(":")
    began = time.process_time()
    for seed in range(int(first), int(last) if last else int(first) + 1):
        try:
            trace = run_one(seed, print if not last else lambda text: None)
        except AssertionError as error:
            print(f"seed {seed}: {error}")
            raise SystemExit(1) from error
        print(f"seed {seed}: holds, trace {trace}, {time.process_time() - began:.1f} s of CPU", flush=True)


if __name__ == "__main__":
    main()
