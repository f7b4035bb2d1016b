"""The gateway's producer over TLS: to a broker whose name and certificate it verifies, and to no other."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiokafka.errors import KafkaConnectionError

from gateway.batch_producer import BatchProducer
from seckill.messaging.record_position import RecordPosition
from seckill.stack.broker_process import BrokerProcess
from seckill.stack.child_processes import free_ports
from tests.concurrency.messaging_cast import make_topic

PATIENCE_S = 30


@asynccontextmanager
async def tls_in_front_of(broker_port: int, port: int, authority: trustme.CA) -> AsyncIterator[None]:
    """A proxy that ends TLS, because mqcore has none."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while content := await source.read(65536):
                target.write(content)
                await target.drain()
        target.close()

    async def serve(client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        broker, requests = await asyncio.open_connection("127.0.0.1", broker_port)
        await asyncio.gather(copy(client, requests), copy(broker, answers))

    async with await asyncio.start_server(serve, "127.0.0.1", port, ssl=context):
        yield


async def send_one(port: int, topic: str, **security: Any) -> RecordPosition:
    options = {"bootstrap_servers": f"localhost:{port}", "security_protocol": "SSL", **security}
    producer = BatchProducer(options, [topic])
    running = None
    try:
        await producer.connect()
        running = asyncio.create_task(producer.run())
        settled: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        sent = producer.send(topic, key=b"ann", value=b"over TLS", headers=[("trace", b"1")], partition=0)
        sent.add_both(settled.set_result)
        async with asyncio.timeout(PATIENCE_S):
            position = await settled
        assert isinstance(position, RecordPosition)
        return position
    finally:
        if running is not None:
            running.cancel()
        await producer.close(0)


def test_the_producer_speaks_tls_and_trusts_only_the_given_authority(tmp_path: Path) -> None:
    plain, behind, port = free_ports(3)
    ours, theirs = trustme.CA(), trustme.CA()
    for name, authority in (("ours", ours), ("theirs", theirs)):
        authority.cert_pem.write_to_path(tmp_path / f"{name}.pem")
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},PROXY://127.0.0.1:{behind}",
        "advertised.listeners": f"PROXY://localhost:{port}",
        "auto.create.topics.enable": "false",
    }

    async def scene(topic: str) -> None:
        async with tls_in_front_of(behind, port, ours):
            position = await send_one(port, topic, ssl_cafile=str(tmp_path / "ours.pem"))
            assert position == RecordPosition(topic, 0, 0)
            with pytest.raises(KafkaConnectionError):
                await send_one(port, topic, ssl_cafile=str(tmp_path / "theirs.pem"))

    with BrokerProcess(tmp_path / "broker", listeners, plain) as broker:
        asyncio.run(scene(make_topic(broker.address, partitions=1).name))
