"""A whole broker for the tests of API modules: real rooms, real files, no client.

`ask` takes a request through its schema into the module that `TABLE` has for it, and the answer back through its
schema, so that what a module says is checked against the version it says it in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mqcore.apis.call import LATER
from mqcore.apis.services import Services
from mqcore.apis.table import TABLE
from mqcore.broker import Broker
from mqcore.config import read
from mqcore.controller.commands import ControllerCommand
from mqcore.settings import check_default
from mqcore.wire.errors import ErrorCode
from mqcore.wire.messages import decode_response, encode_request
from mqcore.wire.records import Record

DEADLINE_S = 20
NO_CONFIGS: Mapping[str, str] = {}


class StackCall:
    """Implements `mqcore.apis.call.Call`; `response` is there once it was answered."""

    client_id = "tester"
    client_host = "127.0.0.1"
    listener = "PLAINTEXT"

    def __init__(self, services: Services, version: int) -> None:
        self.services = services
        self.version = version
        self.response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.when_gone: Callable[[], None] | None = None

    def answer(self, response: Any) -> None:
        self.response.set_result(response)

    def hang_up(self) -> None:
        raise AssertionError("nobody asked for that")


class Stack:
    def __init__(self, data: Path, *settings: str) -> None:
        overrides = [f"log.dirs={data}", "listeners=PLAINTEXT://127.0.0.1:0", "node.id=1", *settings]
        self.config = read("", overrides, check_default)
        self.data = data

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner()
        try:
            self.broker = self._runner.run(self._start())
        except BaseException:
            self._runner.close()
            raise
        return self

    async def _start(self) -> Broker:
        broker = Broker(self.config)
        await broker.start()
        return broker

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._runner.run(self.broker.stop())
        self._runner.close()

    @property
    def services(self) -> Services:
        return self.broker.services

    def ask(self, key: int, version: int, **request: Any) -> Any:
        """The response, decoded."""
        body = self._runner.run(asyncio.wait_for(self._ask(key, version, request), DEADLINE_S))
        return decode_response(key, version, body)

    async def _ask(self, key: int, version: int, request: dict[str, Any]) -> bytes:
        served = TABLE[key]
        call = StackCall(self.services, version)
        body = bytearray(encode_request(key, version, request))  # the broker stamps batches in their frames
        response = served.handle(served.decode(version, memoryview(body), 0), call)
        if response is LATER:
            response = await call.response
        return b"".join(piece for piece in served.encode(version, response) if isinstance(piece, bytes | bytearray))

    def submit(self, *commands: ControllerCommand) -> None:
        """What the broker asks of the controller by itself; several are submitted at once."""

        async def done() -> None:
            answers: list[asyncio.Future[object]] = [asyncio.get_running_loop().create_future() for _ in commands]
            for command, answer in zip(commands, answers, strict=True):
                self.services.controller.submit(command, answer.set_result)
            await asyncio.gather(*answers)

        self._runner.run(asyncio.wait_for(done(), DEADLINE_S))

    # Short words for what many tests begin with

    def create(self, name: str, partitions: int = 1, configs: Mapping[str, str] = NO_CONFIGS) -> None:
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": -1,
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        (made,) = self.ask(19, 7, topics=[topic]).topics
        assert made.error_code == ErrorCode.NONE, made.error_message

    def write(self, topic: str, count: int, partition: int = 0) -> None:
        async def append() -> None:
            found = self.services.partitions.get(topic, partition)
            assert found is not None
            for index in range(count):
                found.append_records([Record(0, 1_700_000_000_000 + index, b"key", b"value")])

        self._runner.run(append())

    def append(self, topic: str, records: Sequence[Record], partition: int = 0) -> None:
        """One batch of the broker's own records, also one above the limit of a batch."""

        async def append() -> None:
            found = self.services.partitions.get(topic, partition) or self.services.observer.partition
            assert found.topic == topic
            found.append_records(records, limit_bytes=1 << 30)

        self._runner.run(append())

    def settings_of(self, topic: str) -> Any:
        """What the log of its first partition goes by."""
        partition = self.services.partitions.get(topic, 0)
        assert partition is not None
        return partition.log.config
