"""What goes wrong in a history. At most one node is in trouble at a time, so a majority always works."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from tests.simulation.cluster.world import ClusterWorld

TROUBLE_MS = 12_000
SLOW_MS = 40_000  # for what must end before the next trouble begins
FREE_BYTES_MAX = 600

COMMON = ("kill", "kill", "freeze", "cut", "cut in", "cut out", "stop", "full disk")
RARE = ("roll", "wipe")
"""At most one of each history, because they take long."""


class Trouble(NamedTuple):
    at_ms: int
    kind: str
    node: int
    for_ms: int


def loses_power(seed: int) -> bool:
    """Half the histories have power losses. Their topics set flush.messages=1, because without it a power loss of the
    last replica in sync loses records. The other topics have kills only, and Kafka's default."""
    return seed % 2 == 0


def planned_troubles(seed: int) -> list[Trouble]:
    random, at, troubles = Random(seed), 300, []
    common = (*COMMON, "power", "power") if loses_power(seed) else COMMON
    rare = [random.choice(RARE)] if random.random() < 0.3 else []
    while at < TROUBLE_MS:
        kind = rare.pop() if rare and random.random() < 0.3 else random.choice(common)
        length = random.choice((50, 400, 1500, 3000, 6000))
        troubles.append(Trouble(at, kind, random.randrange(1, 4), length))
        at += length + random.randrange(1500)
    return troubles


async def make_trouble(world: ClusterWorld, trouble: Trouble) -> None:
    node = world.nodes[trouble.node]
    match trouble.kind:
        case "kill":
            node.crash("kill")
        case "power":
            node.crash("power")
        case "freeze":
            node.freeze()
        case "cut":
            world.isolate(trouble.node)
        case "cut in":
            world.isolate(trouble.node, outbound=False)
        case "cut out":
            world.isolate(trouble.node, inbound=False)
        case "full disk":
            node.fill_disk(world.random.randrange(FREE_BYTES_MAX))
        case "stop":
            await stop(world, trouble.node)
        case "roll":
            for number in world.nodes:
                await world.until(world.is_whole, "all replicas are in sync before the next restart", SLOW_MS)
                await stop(world, number)
                world.nodes[number].start()
        case "wipe":
            await world.until(world.is_whole, "all replicas are in sync before a disk is lost", SLOW_MS)
            world.lose_disk(trouble.node)
        case unknown:
            raise AssertionError(f"no such trouble: {unknown}")
    await world.pass_ms(trouble.for_ms)


async def stop(world: ClusterWorld, number: int) -> None:
    """A controlled shutdown."""
    node = world.nodes[number]
    stopping = node.stop()
    if stopping is not None:
        await world.until(stopping.done, f"node {number} stops", SLOW_MS)
        stopping.result()
    node.crash("kill")
