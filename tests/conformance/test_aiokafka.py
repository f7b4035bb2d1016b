"""aiokafka, a third and independent implementation of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

from seckill.stack.broker_process import BrokerProcess

PATIENCE_S = 30.0


def run(journey: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await journey

    asyncio.run(bounded())


async def create(broker: BrokerProcess, topic: str, partitions: int = 1) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, partitions, 1)])
    finally:
        await admin.close()


async def read(source: AIOKafkaConsumer, count: int) -> list[Any]:
    return [await source.getone() for _ in range(count)]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_records_are_delivered_unchanged(
    broker: BrokerProcess, topic: str, codec: str | None, idempotent: bool
) -> None:
    async def journey() -> None:
        await create(broker, topic)
        sent = [(b"k%d" % i, b"value %d " % i * 20, [("h", b"%d" % i)], 1000 + i) for i in range(200)]
        async with AIOKafkaProducer(
            bootstrap_servers=broker.address, compression_type=codec, enable_idempotence=idempotent, linger_ms=5
        ) as producer:
            told = await asyncio.gather(
                *[
                    await producer.send(topic, value, key=key, headers=headers, timestamp_ms=at)
                    for key, value, headers, at in sent
                ]
            )
        assert [t.offset for t in told] == list(range(200))
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=broker.address, auto_offset_reset="earliest", group_id=None
        ) as source:
            got = await read(source, 200)
        assert [(m.key, m.value, list(m.headers), m.timestamp) for m in got] == sent

    run(journey())


def test_a_group_continues_at_its_offsets_after_a_rebalance(broker: BrokerProcess, topic: str, group: str) -> None:
    async def journey() -> None:
        await create(broker, topic, partitions=4)
        settings: dict[str, Any] = {
            "bootstrap_servers": broker.address,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 300,
        }
        async with AIOKafkaProducer(bootstrap_servers=broker.address, acks="all") as producer:
            for i in range(100):
                await producer.send_and_wait(topic, b"%d" % i, partition=i % 4)
        async with AIOKafkaConsumer(topic, **settings) as first:
            await first.getone()
            assert len(first.assignment()) == 4
            await first.seek_to_beginning()
            async with AIOKafkaConsumer(topic, **settings) as second:
                while len(second.assignment()) != 2 or len(first.assignment()) != 2:
                    await first.getmany(timeout_ms=100)
                    await second.getmany(timeout_ms=100)
        async with AIOKafkaConsumer(topic, **settings) as alone:
            seen = {m.value for m in await read(alone, 100)}
            assert seen == {b"%d" % i for i in range(100)}
            await alone.commit()
        async with AIOKafkaConsumer(topic, **settings) as later:
            await later.getmany(timeout_ms=100)
            assert [await later.committed(TopicPartition(topic, p)) for p in range(4)] == [25] * 4

    run(journey())


def test_offsets_are_found_by_time_and_at_both_ends_of_the_log(broker: BrokerProcess, topic: str) -> None:
    async def journey() -> None:
        await create(broker, topic)
        place = TopicPartition(topic, 0)
        async with AIOKafkaProducer(bootstrap_servers=broker.address) as producer:
            for i in range(20):
                await producer.send_and_wait(topic, b"x", timestamp_ms=1000 + 10 * i)
        async with AIOKafkaConsumer(bootstrap_servers=broker.address) as source:
            source.assign([place])
            assert await source.beginning_offsets([place]) == {place: 0}
            assert await source.end_offsets([place]) == {place: 20}
            found = (await source.offsets_for_times({place: 1055}))[place]
            assert found is not None
            assert (found.offset, found.timestamp) == (6, 1060)
            assert (await source.offsets_for_times({place: 5000}))[place] is None

    run(journey())


def test_an_administrator_sees_the_topics_it_created(broker: BrokerProcess, topic: str) -> None:
    async def journey() -> None:
        await create(broker, topic, partitions=2)
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
        await admin.start()
        try:
            await admin.create_partitions({topic: NewPartitions(3)})
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 3
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()
        finally:
            await admin.close()

    run(journey())
