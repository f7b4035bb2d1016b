"""Transactions are not supported. Every client reports the refusal as final instead of retrying until its timeout.

A client that retried would raise its timeout error, which is another exception than the one expected here.
"""

from __future__ import annotations

import asyncio

import aiokafka
import pytest
from aiokafka.errors import TransactionalIdAuthorizationFailed
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import TransactionalIdAuthorizationFailedError

from seckill.stack.broker_process import BrokerProcess

CLIENT_TIMEOUT_S = 60.0


def test_confluent_kafka_reports_transactions_as_refused(broker: BrokerProcess, unique: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": unique, "log_level": 0})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(CLIENT_TIMEOUT_S)
    error = refused.value.args[0]
    assert error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED and error.fatal()


def test_kafka_python_reports_transactions_as_refused(broker: BrokerProcess, unique: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.address, transactional_id=unique, max_block_ms=int(CLIENT_TIMEOUT_S * 1000)
    )
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    producer.close(timeout=1)


def test_aiokafka_reports_transactions_as_refused(broker: BrokerProcess, unique: str) -> None:
    async def start() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.address, transactional_id=unique)
        try:
            with pytest.raises(TransactionalIdAuthorizationFailed):
                await asyncio.wait_for(producer.start(), CLIENT_TIMEOUT_S)
        finally:
            await producer.stop()

    asyncio.run(start())
