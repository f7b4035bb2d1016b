"""The gateway's producer beside a client that answers as the test wants; tests/concurrency has it beside a broker."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trustme

from gateway.batch_producer import BatchProducer, asyncio_options
from gateway.waiting_records import Partition
from seckill.messaging.record_position import RecordPosition

ADDRESS = {"bootstrap_servers": "kafka:9092"}
TOPIC, BROKER, OFFLINE = "requests", 1, -1
NOT_LEADER, TOO_LARGE = 6, 10


@dataclass
class Client:
    """`answers`: error code and offset by partition; a partition that it lacks is missing in the response."""

    answers: dict[int, tuple[int, int]] = field(default_factory=lambda: {0: (0, 100), 1: (0, 200)})
    leaders: dict[int, int] = field(default_factory=lambda: {0: BROKER, 1: BROKER})
    requests: list[list[int]] = field(default_factory=list)  # the partitions of each
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    refreshes: int = 0

    def __post_init__(self) -> None:
        self.cluster = SimpleNamespace(leader_for_partition=lambda at: self.leaders.get(at.partition))
        self.may_answer.set()

    async def ready(self, broker: int) -> bool:
        return True

    async def send(self, broker: int, request: Any) -> Any:
        [(topic, partitions)] = request._topics
        numbers = sorted(number for number, _ in partitions)
        self.requests.append(numbers)
        await self.may_answer.wait()
        found = [(number, *self.answers[number], -1) for number in numbers if number in self.answers]
        return SimpleNamespace(topics=[(topic, found)])

    def force_metadata_update(self) -> None:
        self.refreshes += 1

    async def close(self) -> None:
        self.requests.append([])


def scene(play: Callable[[BatchProducer, Client], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        client = Client()
        producer = BatchProducer(ADDRESS, [TOPIC])
        producer._client, producer._loop = client, asyncio.get_running_loop()
        running = asyncio.create_task(producer.run())
        try:
            async with asyncio.timeout(30):
                await play(producer, client)
        finally:
            running.cancel()

    asyncio.run(run())


def send(producer: BatchProducer, text: str = "x", partition: int = 0) -> asyncio.Future[Any]:
    settled: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    record = producer.send(TOPIC, key=b"ann", value=text.encode(), headers=[], partition=partition)
    record.add_both(settled.set_result)
    return settled


def test_records_of_one_turn_share_a_request_and_get_offsets_in_order() -> None:
    async def play(producer: BatchProducer, client: Client) -> None:
        sent = [send(producer, partition=partition) for partition in (0, 1, 0)]
        assert await asyncio.gather(*sent) == [
            RecordPosition(TOPIC, 0, 100), RecordPosition(TOPIC, 1, 200), RecordPosition(TOPIC, 0, 101),
        ]  # fmt: skip
        assert client.requests == [[0, 1]]

    scene(play)


def test_records_that_come_while_a_request_is_under_way_share_the_next_one() -> None:
    async def play(producer: BatchProducer, client: Client) -> None:
        client.may_answer.clear()
        sent = [send(producer)]
        while not client.requests:
            await asyncio.sleep(0)
        for _ in range(3):
            sent.append(send(producer))
            await asyncio.sleep(0)
        assert client.requests == [[0]]
        client.may_answer.set()
        await asyncio.gather(*sent)
        assert client.requests == [[0], [0]]

    scene(play)


def test_a_partition_without_a_leader_asks_for_metadata_and_stops_no_other() -> None:
    async def play(producer: BatchProducer, client: Client) -> None:
        client.leaders[0] = OFFLINE
        waits, goes = send(producer, partition=0), send(producer, partition=1)
        assert (await goes).partition == 1
        while not client.refreshes:
            await asyncio.sleep(0.01)
        assert not waits.done()
        client.leaders[0] = BROKER
        assert (await waits).partition == 0

    scene(play)


def test_a_batch_is_sent_again_after_a_passing_error_and_fails_at_once_after_another() -> None:
    async def play(producer: BatchProducer, client: Client) -> None:
        client.answers = {0: (NOT_LEADER, -1), 1: (TOO_LARGE, -1)}
        passing, final = send(producer, partition=0), send(producer, partition=1)
        assert type(await final).__name__ == "MessageSizeTooLargeError"
        assert not passing.done()
        client.answers = {0: (0, 7)}
        assert await passing == RecordPosition(TOPIC, 0, 7)
        assert client.refreshes, "the leader may have changed"

    scene(play)


def test_a_response_that_lacks_a_partition_fails_its_records_and_only_them() -> None:
    async def play(producer: BatchProducer, client: Client) -> None:
        del client.answers[0]
        lacking, answered = send(producer, partition=0), send(producer, partition=1)
        assert isinstance(await lacking, Exception)
        assert await answered == RecordPosition(TOPIC, 1, 200)
        client.answers[0] = (0, 5)
        assert await send(producer) == RecordPosition(TOPIC, 0, 5), "the partition is free again"

    scene(play)


def test_a_callback_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def play(producer: BatchProducer, client: Client) -> None:
        def fail(outcome: object) -> None:
            raise ZeroDivisionError

        producer.send(TOPIC, key=b"ann", value=b"x", headers=[], partition=0).add_both(fail)
        assert await send(producer) == RecordPosition(TOPIC, 0, 101)

    scene(play)
    assert "a callback of a record failed" in caplog.text


def test_closing_waits_for_what_is_under_way_and_no_longer_than_it_may() -> None:
    async def play(producer: BatchProducer, client: Client) -> None:
        client.may_answer.clear()
        sent = send(producer)
        await producer.close(0.01)
        assert not sent.done() and client.requests[-1] == []

    async def play_in_time(producer: BatchProducer, client: Client) -> None:
        client.may_answer.clear()
        sent = send(producer)
        asyncio.get_running_loop().call_later(0.05, client.may_answer.set)
        await producer.close(30)
        assert sent.done()

    scene(play)
    scene(play_in_time)


def test_an_unknown_partition_is_refused() -> None:
    async def play(producer: BatchProducer, client: Client) -> None:
        with pytest.raises(ValueError, match="unknown partition 9 of requests"):
            send(producer, partition=9)
        assert producer._records.sendable() == set[Partition]()

    scene(play)


def test_an_address_alone_is_passed_on() -> None:
    assert asyncio_options(ADDRESS) == ADDRESS


def test_tls_verifies_the_broker_and_its_name_with_the_given_authority(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    options = {**ADDRESS, "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_plain_username": "ann"}
    found = asyncio_options({**options, "ssl_cafile": str(tmp_path / "ca.pem"), "ssl_certfile": None})
    context = found.pop("ssl_context")
    assert found == options
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert len(context.get_ca_certs()) == 1, "only this authority"


def test_the_name_is_not_checked_if_the_settings_say_so() -> None:
    context = asyncio_options({**ADDRESS, "security_protocol": "SSL", "ssl_check_hostname": False})["ssl_context"]
    assert context.verify_mode is ssl.CERT_REQUIRED and not context.check_hostname
