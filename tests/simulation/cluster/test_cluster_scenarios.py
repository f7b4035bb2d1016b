"""Situations of whole brokers that random histories do not lead to. S31 and S32 are numbers of the design's list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from tests.simulation.cluster.history import START_MS, TOPIC, Cast, copy_of, make_cast
from tests.simulation.cluster.world import ClusterWorld, simulate

SEED = 5
DAY_MS = 86_400_000
SETTINGS = ("log.flush.interval.messages=1", f"log.message.timestamp.after.max.ms={2 * DAY_MS}")
"""The clients keep the right time, so a leader whose clock is behind must take records of the future."""
WAIT_MS, BEYOND_SESSION_MS = 20_000, 11_000


async def working_cluster() -> tuple[ClusterWorld, Cast]:
    """Three brokers, and clients that have written and read for two seconds."""
    world = ClusterWorld(SEED, [*SETTINGS])
    clients = make_cast(world, SEED)
    world.clients = [*clients.everybody]
    for node in world.nodes.values():
        node.start()
    await world.until(world.are_unfenced, "three brokers are active", START_MS)
    created: list[bool] = []
    reader = clients.reader
    reader.process.run(lambda: reader.create_topic(TOPIC, 2, {}, lambda: created.append(True)))
    await world.until(lambda: bool(created), "the topic is created", START_MS)
    clients.start()
    await world.pass_ms(2000)
    return world, clients


async def stop_writing(world: ClusterWorld, clients: Cast) -> None:
    clients.stop()
    await world.until(clients.are_done, "every request is answered", WAIT_MS)


def leader_of_first(world: ClusterWorld) -> int:
    broker = next(node.broker for node in world.nodes.values() if node.broker is not None)
    return broker.observer.image.topics[TOPIC].partitions[0].leader


def terms(world: ClusterWorld, topic: UUID) -> tuple[dict[int, int], set[tuple[int, int]]]:
    """The epochs of the quorum, and those of a topic's partitions, that have had a leader."""
    return dict(world.checks.controllers), {key[1:] for key in world.checks.leaders if key[0] == topic}


def run(story: Callable[[], Awaitable[None]]) -> None:
    simulate(story)


@pytest.mark.parametrize("jump_ms", [DAY_MS, -DAY_MS])
def test_s32_if_the_controllers_clock_jumps_by_a_day_there_is_no_election_and_no_session_ends(jump_ms: int) -> None:
    async def story() -> None:
        world, clients = await working_cluster()
        number = world.checks.controllers[max(world.checks.controllers)]
        broker = world.nodes[number].broker
        assert broker is not None and broker.quorum.is_active
        topic = broker.observer.image.topics[TOPIC].id
        before = terms(world, topic)
        process = world.nodes[number].process
        assert process is not None
        process.clock.wall_ahead_ms += jump_ms
        await world.pass_ms(BEYOND_SESSION_MS)
        assert terms(world, topic) == before
        await stop_writing(world, clients)
        assert world.is_whole() and not clients.faults()

    run(story)


def test_s31_a_replica_with_a_damaged_log_stays_out_until_it_is_repaired() -> None:
    """It is neither cut there nor elected: the batches behind the damage were acknowledged."""

    async def story() -> None:
        world, clients = await working_cluster()
        await stop_writing(world, clients)
        await world.until(world.is_whole, "every replica is in sync", WAIT_MS)
        leader = leader_of_first(world)
        damaged, other = (number for number in world.nodes if number != leader)
        whole = copy_of(world.nodes[leader], 0)
        node = world.nodes[damaged]
        node.crash("power")
        content = node.disk._content(f"{TOPIC}-0/{0:020}.log")
        content.write(len(content.now) // 2, bytes([content.now[len(content.now) // 2] ^ 4]))
        node.start()
        await world.until(world.are_unfenced, "the broker is back", WAIT_MS)
        await world.pass_ms(2000)
        assert node.broker is not None
        partition = node.broker.partitions.get(TOPIC, 0)
        assert partition is None or partition.is_offline, "the damage is noticed"
        assert set(node.broker.observer.image.topics[TOPIC].partitions[0].isr) == {leader, other}
        world.nodes[leader].crash("kill")
        await world.until(lambda: leader_of_first(world) == other, "the whole replica leads", WAIT_MS)
        assert copy_of(world.nodes[other], 0)[: len(whole)] == whole
        assert damaged not in {number for key, number in world.checks.leaders.items() if key[1] == 0 and key[2] > 0}

    run(story)
