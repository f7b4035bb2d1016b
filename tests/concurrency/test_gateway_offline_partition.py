"""The gateway's producer while one partition of the queue is offline or the broker is frozen, and afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaError, KafkaTimeoutError
from kafka import KafkaConsumer, TopicPartition

from gateway import batch_producer
from gateway.batch_producer import BatchProducer
from seckill.messaging.record_position import RecordPosition
from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.messaging_cast import make_topic

PATIENCE_S = 30
LIMIT_S = 2.0


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerProcess]:
    monkeypatch.setattr(batch_producer, "SEND_SECONDS_MAX", LIMIT_S)
    monkeypatch.setattr(batch_producer, "REQUEST_SECONDS_MAX", LIMIT_S)
    with BrokerProcess(tmp_path, {"auto.create.topics.enable": "false"}) as process:
        yield process


@asynccontextmanager
async def producing(address: str, topic: str) -> AsyncIterator[BatchProducer]:
    producer = BatchProducer({"bootstrap_servers": address}, [topic])
    await producer.connect()
    running = asyncio.create_task(producer.run())
    try:
        yield producer
    finally:
        running.cancel()
        await producer.close(0)


def start(producer: BatchProducer, topic: str, text: str, partition: int = 0) -> asyncio.Future[Any]:
    settled: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    sent = producer.send(topic, key=b"user", value=text.encode(), headers=[], partition=partition)
    sent.add_both(settled.set_result)
    return settled


async def send(producer: BatchProducer, topic: str, text: str, partition: int = 0) -> RecordPosition:
    async with asyncio.timeout(PATIENCE_S):
        outcome = await start(producer, topic, text, partition)
    if isinstance(outcome, Exception):
        raise outcome
    assert isinstance(outcome, RecordPosition)
    return outcome


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_an_offline_partition_stops_no_other_and_is_used_again_when_it_returns(own: BrokerProcess) -> None:
    run(use_an_offline_partition(own, make_topic(own.address, partitions=3).name))


async def use_an_offline_partition(own: BrokerProcess, topic: str) -> None:
    async with producing(own.address, topic) as producer:
        for partition in range(3):
            await send(producer, topic, "before", partition)
        own.stop()
        [segment] = (own.data / f"{topic}-0").glob("*.log")
        whole = segment.read_bytes()
        segment.unlink()
        segment.mkdir()
        own.start()
        for _ in range(2):  # each of them expires
            lost = asyncio.create_task(send(producer, topic, "lost", 0))
            for partition in (1, 2):
                await send(producer, topic, "meanwhile", partition)
            assert not lost.done(), "the others did not wait for it"
            with pytest.raises(KafkaError):
                await lost
        own.stop()
        segment.rmdir()
        segment.write_bytes(whole)
        own.start()
        for partition in range(3):
            await send(producer, topic, "after", partition)


def test_a_record_that_a_frozen_broker_does_not_acknowledge_fails_by_the_deadline_and_is_not_sent_later(
    own: BrokerProcess,
) -> None:
    """Moving slots relies on it: after the deadline nothing that was sent by the old slot map arrives any more."""
    run(use_a_frozen_broker(own, topic := make_topic(own.address, partitions=1).name))
    found = read_values(own.address, topic)
    assert b"behind" not in found
    assert {b"before", b"after"} <= set(found)


async def use_a_frozen_broker(own: BrokerProcess, topic: str) -> None:
    async with producing(own.address, topic) as producer:
        await send(producer, topic, "before")
        os.kill(own.pid, signal.SIGSTOP)
        began = time.monotonic()
        first = asyncio.create_task(send(producer, topic, "on the wire"))
        await asyncio.sleep(0.1)
        behind = asyncio.create_task(send(producer, topic, "behind"))
        for sent in (first, behind):
            with pytest.raises(KafkaTimeoutError):
                await sent
        assert time.monotonic() - began < 20
        os.kill(own.pid, signal.SIGCONT)
        await send(producer, topic, "after")


def test_records_keep_their_order_while_the_broker_restarts(own: BrokerProcess) -> None:
    run(use_a_restarting_broker(own, topic := make_topic(own.address, partitions=1).name))
    found = read_values(own.address, topic)
    assert list(dict.fromkeys(found)) == [b"%d" % number for number in range(60)], "a repeated one keeps its place"


async def use_a_restarting_broker(own: BrokerProcess, topic: str) -> None:
    async with producing(own.address, topic) as producer:
        sent = []
        for number in range(60):
            sent.append(start(producer, topic, str(number)))
            await asyncio.sleep(0.01)
            if number == 30:
                own.kill()
                await asyncio.to_thread(own.start)
        async with asyncio.timeout(PATIENCE_S):
            outcomes = await asyncio.gather(*sent)
        offsets = [outcome.offset for outcome in outcomes]
        assert offsets == sorted(set(offsets))


def test_a_partition_that_the_client_does_not_know_is_refused_at_once(own: BrokerProcess) -> None:
    async def send_to_an_unknown_partition() -> None:
        async with producing(own.address, topic) as producer:
            assert producer.partitions_for(topic) == {0, 1}
            with pytest.raises(ValueError, match=f"unknown partition 2 of {topic}"):
                start(producer, topic, "nowhere", 2)
            await send(producer, topic, "somewhere", 1)

    topic = make_topic(own.address, partitions=2).name
    run(send_to_an_unknown_partition())


def test_a_record_that_the_broker_rejects_fails_at_once(own: BrokerProcess) -> None:
    async def send_too_much() -> None:
        async with producing(own.address, topic) as producer:
            began = time.monotonic()
            with pytest.raises(KafkaError, match="MessageSizeTooLarge"):
                await send(producer, topic, "x" * 2_000_000)
            assert time.monotonic() - began < PATIENCE_S
            await send(producer, topic, "small")

    topic = make_topic(own.address, partitions=1).name
    run(send_too_much())


def read_values(address: str, topic: str) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", consumer_timeout_ms=3000)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    try:
        return [record.value for record in consumer]
    finally:
        consumer.close()
