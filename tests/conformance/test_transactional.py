"""Transactions are not served yet: whoever asks for one hears so at once, instead of waiting for a timeout."""

from __future__ import annotations

import asyncio
import time

import aiokafka
import pytest
from aiokafka.errors import TransactionalIdAuthorizationFailed
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import TransactionalIdAuthorizationFailedError

from seckill.stack.broker import BrokerProcess

PROMPT_S = 10.0  # the clients' own patience is set far beyond


def test_confluent_kafka_is_told_for_good(broker: BrokerProcess, unique: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": unique, "log_level": 0})
    began = time.monotonic()
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(60)
    error = refused.value.args[0]
    assert error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED and error.fatal()
    assert time.monotonic() - began < PROMPT_S


def test_kafka_python_is_told_for_good(broker: BrokerProcess, unique: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.address, transactional_id=unique, max_block_ms=60_000)
    began = time.monotonic()
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    assert time.monotonic() - began < PROMPT_S
    producer.close(timeout=1)


def test_aiokafka_is_told_for_good(broker: BrokerProcess, unique: str) -> None:
    async def start() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.address, transactional_id=unique)
        try:
            with pytest.raises(TransactionalIdAuthorizationFailed):
                await asyncio.wait_for(producer.start(), PROMPT_S)
        finally:
            await producer.stop()

    asyncio.run(start())
