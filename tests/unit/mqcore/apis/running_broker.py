"""A whole broker for the tests of API modules, with real files but without a client.

`request` encodes a request with its schema, passes it to the handler in `TABLE`, and decodes the response with its
schema, so each test also checks that the response fits its version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from mqcore.apis.call import LATER
from mqcore.apis.services import Services
from mqcore.apis.table import TABLE
from mqcore.broker import Broker
from mqcore.config import parse_config
from mqcore.controller.commands import ControllerCommand
from mqcore.host import real_world
from mqcore.topic_defaults import check_default
from mqcore.wire.errors import ErrorCode
from mqcore.wire.messages import decode_response, encode_request
from mqcore.wire.records import Record
from tests.unit.mqcore.fake_call import FakeCall

DEADLINE_S = 20
T = TypeVar("T")
NO_CONFIGS: Mapping[str, str] = {}


class AwaitableCall(FakeCall):
    """`response` can be awaited."""

    def __init__(self, services: Services, version: int) -> None:
        super().__init__(services, version)
        self.response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answer(self, response: Any) -> None:
        super().answer(response)
        self.response.set_result(response)

    def hang_up(self) -> None:
        raise AssertionError("the handler closed the connection")


class RunningBroker:
    def __init__(self, data: Path, *settings: str) -> None:
        overrides = [f"log.dirs={data}", "listeners=PLAINTEXT://127.0.0.1:0", "node.id=1", *settings]
        self.config = parse_config("", overrides, check_default)
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
        broker = Broker(self.config, real_world(self.config.log_dirs))
        await broker.start()
        return broker

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._runner.run(self.broker.stop())
        self._runner.close()

    @property
    def services(self) -> Services:
        return self.broker.services

    def request(self, key: int, version: int, **request: Any) -> Any:
        """The decoded response."""
        body = self._runner.run(asyncio.wait_for(self._request(key, version, request), DEADLINE_S))
        return decode_response(key, version, body)

    async def _request(self, key: int, version: int, request: dict[str, Any]) -> bytes:
        served = TABLE[key]
        call = AwaitableCall(self.services, version)
        body = bytearray(encode_request(key, version, request))  # writable, because batches are stamped in it
        response = served.handle(served.decode(version, memoryview(body), 0), call)
        if response is LATER:
            response = await call.response
        return b"".join(piece for piece in served.encode(version, response) if isinstance(piece, bytes | bytearray))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the broker's event loop."""
        return self._runner.run(work)

    def submit(self, *commands: ControllerCommand) -> None:
        """Submit commands to the controller, all in one turn of the loop."""

        async def done() -> None:
            answers: list[asyncio.Future[object]] = [asyncio.get_running_loop().create_future() for _ in commands]
            for command, answer in zip(commands, answers, strict=True):
                self.services.controller.submit(command, answer.set_result)
            await asyncio.gather(*answers)

        self._runner.run(asyncio.wait_for(done(), DEADLINE_S))

    # ── what many tests begin with ───────────────────────────────────────────────────────────────

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] = NO_CONFIGS) -> None:
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": -1,
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        (made,) = self.request(19, 7, topics=[topic]).topics
        assert made.error_code == ErrorCode.NONE, made.error_message

    def append_records(self, topic: str, count: int, partition: int = 0) -> None:
        async def append() -> None:
            found = self.services.partitions.get(topic, partition)
            assert found is not None
            for index in range(count):
                found.append_records([Record(0, 1_700_000_000_000 + index, b"key", b"value")])

        self._runner.run(append())

    def append_batch(self, topic: str, records: Sequence[Record], partition: int = 0) -> None:
        """Append one batch of the broker's own records, even if it exceeds the limit of a batch."""

        async def append() -> None:
            found = self.services.partitions.get(topic, partition) or self.services.quorum
            assert found.name.topic == topic
            found.append_records(records, limit_bytes=1 << 30)

        self._runner.run(append())

    def log_settings(self, topic: str) -> Any:
        """The settings in effect for the first partition of a topic."""
        partition = self.services.partitions.get(topic, 0)
        assert partition is not None
        return partition.log.config
