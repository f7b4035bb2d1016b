"""What goes wrong in a history: a list that the seed makes before anything runs.

A quarter of the periods is without faults, because a quorum that only survives must also recover. At most one disk is
lost or damaged in a history: with three voters, a quorum promises no more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

from mqcore.disk.platter import Content
from mqcore.raft.quorum_log import FOLDER
from mqcore.wire.batches import HEADER_BYTES, read_headers
from tests.simulation.raft.node import Node
from tests.simulation.raft.world import World

PERIOD_MS = 2_500
PERIODS = 5
QUIET_RATE = 0.25


class Trouble(NamedTuple):
    at_ms: int
    kind: str
    node: int
    ms: int
    """How long it lasts."""
    choice: int
    """A random number for whatever else has to be chosen."""


def make_troubles(seed: int) -> list[Trouble]:
    random = Random(f"{seed} troubles")
    kinds = random.sample(sorted(KINDS), random.randrange(2, len(KINDS)))  # each history has its own mix
    troubles = []
    for period in range(PERIODS):
        if random.random() < QUIET_RATE:
            continue
        for _ in range(random.choice((1, 2, 3, 4))):
            at = period * PERIOD_MS + random.randrange(PERIOD_MS)
            kind, node = random.choice(kinds), random.choice((1, 2, 3))
            troubles.append(Trouble(at, kind, node, random.choice((100, 500, 1_500, 3_000)), random.getrandbits(30)))
    return sorted(troubles)


def begin(world: World, trouble: Trouble) -> None:
    KINDS[trouble.kind](world, world.nodes[trouble.node], trouble)


# ── one function for each kind ───────────────────────────────────────────────────────────────────


def _restart_after(world: World, node: Node, ms: int) -> None:
    world.start_later(node, ms)


def _kill(world: World, node: Node, trouble: Trouble) -> None:
    if node.is_up:
        world.kill(node)
        _restart_after(world, node, trouble.ms)


def _kill_leader(world: World, node: Node, trouble: Trouble) -> None:
    if world.leaders():
        _kill(world, world.leader(), trouble)


def _power(world: World, node: Node, trouble: Trouble) -> None:
    if node.is_up:
        world.cut_power(node)
        _restart_after(world, node, trouble.ms)


def _power_of_all(world: World, node: Node, trouble: Trouble) -> None:
    for each in world.nodes.values():
        _power(world, each, trouble)


def _power_during_a_write(world: World, node: Node, trouble: Trouble) -> None:
    """`lose_process` follows when the disk raises `Crashed`."""
    if node.is_up:
        when = ("before", "during", "after")[trouble.choice % 3]
        node.disk.crash_at(1 + trouble.choice // 3 % 12, when)  # type: ignore[arg-type]


def _cut_one_way(world: World, node: Node, trouble: Trouble) -> None:
    other = _another(world, node, trouble)
    _cut_for(world, [(node, other)], trouble.ms)


def _cut_both_ways(world: World, node: Node, trouble: Trouble) -> None:
    other = _another(world, node, trouble)
    _cut_for(world, [(node, other), (other, node)], trouble.ms)


def _isolate(world: World, node: Node, trouble: Trouble) -> None:
    others = [other for other in world.nodes.values() if other is not node]
    _cut_for(world, [pair for other in others for pair in ((node, other), (other, node))], trouble.ms)


def _isolate_leader(world: World, node: Node, trouble: Trouble) -> None:
    _isolate(world, world.leader() if world.leaders() else node, trouble)


def _cut_for(world: World, pairs: list[tuple[Node, Node]], ms: int) -> None:
    for source, to in pairs:
        world.cut(source.id, to.id)
        world.call_later(ms, None, partial(world.cuts.discard, (source.id, to.id)))


def _another(world: World, node: Node, trouble: Trouble) -> Node:
    return [other for other in world.nodes.values() if other is not node][trouble.choice % 2]


def _pause(world: World, node: Node, trouble: Trouble) -> None:
    node.is_paused = True
    world.call_later(trouble.ms, None, partial(setattr, node, "is_paused", False))


def _slow_disk(world: World, node: Node, trouble: Trouble) -> None:
    node.disk_slowness = (20.0, 200.0)[trouble.choice % 2]
    world.call_later(trouble.ms, None, partial(setattr, node, "disk_slowness", 1.0))


def _full_disk(world: World, node: Node, trouble: Trouble) -> None:
    if node.is_up:
        full = 1 << 40
        node.disk.capacity = full
        node.disk.capacity = full - node.disk.free_bytes() + trouble.choice % 400
        world.call_later(trouble.ms, None, partial(setattr, node.disk, "capacity", None))


def _stragglers(world: World, node: Node, trouble: Trouble) -> None:
    world.straggler_rate = 0.2
    world.call_later(trouble.ms, None, partial(setattr, world, "straggler_rate", 0.02))


def _resign(world: World, node: Node, trouble: Trouble) -> None:
    for leader in world.leaders():
        world.resign(leader)


def _wipe(world: World, node: Node, trouble: Trouble) -> None:
    """Only a voter that all others know: before that, the cluster has not been founded on three nodes."""
    if all_know_all_voters(world) and not world.has_lost_disk:
        world.wipe(node)


def _rot(world: World, node: Node, trouble: Trouble) -> None:
    if all_know_all_voters(world) and not world.has_lost_disk and node.is_up:
        world.kill(node)
        world.has_lost_disk = flip_a_bit(node, trouble.choice)
        _restart_after(world, node, trouble.ms)


def flip_a_bit(node: Node, choice: int) -> bool:
    """Damage a batch of the log that valid batches follow. Whether there was one."""
    name = next(name for name in reversed(node.disk.names(str(FOLDER))) if name.endswith(".log"))
    content = node.disk._content(f"{FOLDER}/{name}")
    assert isinstance(content, Content)
    headers = list(read_headers(bytes(content.now)))
    if len(headers) < 2:
        return False
    position, _ = headers[choice % (len(headers) - 1)]
    content.now[position + HEADER_BYTES] ^= 1
    content.sync()
    return True


def all_know_all_voters(world: World) -> bool:
    keys = {node.key for node in world.nodes.values()}
    return all(node.log is not None and set(node.log.voters.values()) == keys for node in world.nodes.values())


KINDS: dict[str, Callable[[World, Node, Trouble], None]] = {
    "kill": _kill,
    "kill leader": _kill_leader,
    "power": _power,
    "power of all": _power_of_all,
    "power during a write": _power_during_a_write,
    "cut one way": _cut_one_way,
    "cut both ways": _cut_both_ways,
    "isolate": _isolate,
    "isolate leader": _isolate_leader,
    "pause": _pause,
    "slow disk": _slow_disk,
    "full disk": _full_disk,
    "stragglers": _stragglers,
    "resign": _resign,
    "wipe": _wipe,
    "rot": _rot,
}
