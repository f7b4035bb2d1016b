"""One random history from its beginning to the verdict on what clients have observed."""

from __future__ import annotations

from tests.conformance.history import History, Place, Sent, anomalies
from tests.simulation.replication.clients import Producer
from tests.simulation.replication.faults import Faults
from tests.simulation.replication.setup import Setup
from tests.simulation.replication.troubles import PERIOD_MS, PERIODS, Trouble, troubles_of
from tests.simulation.replication.truth import Violated
from tests.simulation.replication.world import BROKERS, World

TROUBLED_MS = PERIODS * PERIOD_MS


def planned_troubles(world: World) -> list[Trouble]:
    return troubles_of(world.seed * 8 + 7, BROKERS, with_power=world.durable_only)


def run_history(seed: int, setup: Setup | None = None) -> World:
    """One whole history. Raises `Violated` with the command that repeats it."""
    world = World(seed, setup)
    Faults(world, planned_troubles(world))
    world.start()
    for partition in world.partitions:
        world.add_clients(partition)
    try:
        world.events.run_until(TROUBLED_MS)
        world.heal()
        found = judge(world)
        if found:
            raise Violated("history", f"{found}")
    except Violated as violated:
        again = f"python -m tests.simulation.replication {seed}"
        violated.add_note(f"at {world.events.now} ms, event {world.events.count}; repeat it: {again}")
        raise
    return world


def judge(world: World) -> dict[str, list[str]]:
    """What clients have observed, judged by the same checker as real processes; plus the files of the replicas."""
    history = History()
    log: dict[Place, Sent] = {}
    found: dict[str, list[str]] = {}
    sent = {number: _sent(producer, number) for producer in world.producers for number in producer.unknown}
    for partition in world.partitions:
        contents = [broker.replicas[partition].read_content() for broker in world.brokers.values()]
        if any(content != contents[0] for content in contents):
            found["different files"] = [f"partition {partition.partition}"]
        for offset, record in enumerate(contents[0]):
            log[Place(partition.partition, offset)] = sent[record.number]
    for producer in world.producers:
        for number, offset in producer.acked.items():
            history.acked[sent[number]] = Place(producer.partition.partition, offset)
    for consumer in world.consumers:
        index = consumer.partition.partition
        history.seen[consumer.name] = [(Place(index, at), sent[record.number]) for at, record in consumer.seen]
    history.unknown = set(sent.values())
    history.log = log
    return found | anomalies(history)


def _sent(producer: Producer, number: int) -> Sent:
    return Sent(producer.name, producer.partition.partition, number)
