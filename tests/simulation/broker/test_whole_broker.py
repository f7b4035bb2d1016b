"""A whole broker in a simulated world: it starts, serves, crashes and recovers without a clock, socket or thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Literal

import pytest

from mqcore.broker import Broker
from mqcore.config import parse_config
from mqcore.wire.errors import ErrorCode
from tests.simulation.broker.simulated_world import Simulation
from tests.unit.mqcore.partitions.helpers import batch

PRODUCE, METADATA, FIND_COORDINATOR, CREATE_TOPICS = 0, 3, 10, 19
CONFIG = parse_config("", ["log.dirs=simulated", "node.id=1", "log.cleaner.backoff.ms=50"])

Crash = Literal["kill", "power"]


def simulate(seed: int, story: Callable[[Simulation], Coroutine[Any, Any, None]]) -> Simulation:
    simulation = Simulation(seed)
    asyncio.run(story(simulation))
    return simulation


async def start(simulation: Simulation) -> Broker:
    broker = Broker(CONFIG, simulation.world())
    await simulation.run(broker.start())
    return broker


def crash(simulation: Simulation, broker: Broker, how: Crash) -> None:
    """The process is gone: none of its tasks and timers runs again, and the disk keeps what it has to keep."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    simulation.clock.drop_timers()
    simulation.disk.crash(how)


async def create_topic(simulation: Simulation, name: str, **configs: str) -> int:
    entries = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": entries}
    answer = await simulation.request(CREATE_TOPICS, 4, topics=[topic], timeout_ms=1000, validate_only=False)
    return int(answer.topics[0].error_code)


async def produce(simulation: Simulation, topic: str, value: bytes) -> Any:
    records = bytes(batch(value, timestamp=simulation.clock.wall_ms()))
    partition = {"index": 0, "records": records}
    answer = await simulation.request(
        PRODUCE,
        7,
        transactional_id=None,
        acks=-1,
        timeout_ms=1000,
        topic_data=[{"name": topic, "partition_data": [partition]}],
    )
    return answer.responses[0].partition_responses[0]


def test_a_broker_starts_serves_and_stops_in_virtual_time() -> None:
    async def story(simulation: Simulation) -> None:
        broker = await start(simulation)
        assert await create_topic(simulation, "orders") == ErrorCode.NONE
        answered = await produce(simulation, "orders", b"first")
        assert (answered.error_code, answered.base_offset) == (ErrorCode.NONE, 0)
        metadata = await simulation.request(METADATA, 8, topics=[{"name": "orders"}])
        assert [topic.name for topic in metadata.topics] == ["orders"]
        await simulation.run(broker.stop())

    simulate(1, story)


@pytest.mark.parametrize("how", ["kill", "power"])
@pytest.mark.parametrize("seed", range(5))
def test_an_acknowledged_record_of_a_durable_topic_survives_every_crash(seed: int, how: Crash) -> None:
    async def story(simulation: Simulation) -> None:
        broker = await start(simulation)
        assert await create_topic(simulation, "orders", flush_messages="1") == ErrorCode.NONE
        for number in range(5):
            assert (await produce(simulation, "orders", b"%d" % number)).error_code == ErrorCode.NONE
        crash(simulation, broker, how)
        broker = await start(simulation)
        partition = broker.partitions.get("orders", 0)
        assert partition is not None and partition.high_watermark == 5
        assert (await produce(simulation, "orders", b"next")).base_offset == 5
        await simulation.run(broker.stop())

    simulate(seed, story)


def test_without_the_sync_a_power_loss_takes_acknowledged_records() -> None:
    """The negative control: a topic that acknowledges before the sync loses records in some of the power losses."""
    lost = []

    async def story(simulation: Simulation) -> None:
        broker = await start(simulation)
        assert await create_topic(simulation, "orders") == ErrorCode.NONE
        for number in range(5):
            assert (await produce(simulation, "orders", b"%d" % number)).error_code == ErrorCode.NONE
        crash(simulation, broker, "power")
        broker = await start(simulation)
        partition = broker.partitions.get("orders", 0)
        assert partition is not None
        lost.append(5 - partition.high_watermark)
        await simulation.run(broker.stop())

    for seed in range(8):
        simulate(seed, story)
    assert any(lost)


def test_the_same_seed_leaves_the_same_bytes_on_the_disk_and_another_seed_others() -> None:
    def files_after(seed: int) -> dict[str, bytes]:
        async def story(simulation: Simulation) -> None:
            random = Random(seed)
            broker = await start(simulation)
            for number in range(8):
                await create_topic(simulation, f"topic-{number}", flush_messages=str(random.choice([1, 1000])))
                for _ in range(random.randrange(4)):
                    await produce(simulation, f"topic-{number}", random.randbytes(20))
                if random.random() < 0.3:
                    crash(simulation, broker, random.choice(["kill", "power"]))
                    broker = await start(simulation)
            await simulation.run(broker.stop())

        disk = simulate(seed, story).disk
        folders = [name for name in disk.names("") if name.endswith("/")]
        paths = [name for name in disk.names("") if not name.endswith("/")]
        paths += [
            folder + name for folder in folders for name in disk.names(folder.rstrip("/")) if not name.endswith("/")
        ]
        return {path: disk.read_whole(path) for path in paths}

    first = files_after(1)
    assert len(first) > 10 and files_after(1) == first
    assert files_after(2) != first
