"""Shell: send records on the event loop: one request at a time to each broker, with all records that wait.

aiokafka keeps the connections and the metadata. The queue of records is ours, because aiokafka's own producer still
sends an expired batch once its partition has a leader. Here a record is not sent any more after `SEND_SECONDS_MAX`, and
a request ends within `REQUEST_SECONDS_MAX`, so each record is settled within `DELIVERY_SECONDS_MAX`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaClient
from aiokafka.errors import KafkaTimeoutError, UnknownTopicOrPartitionError, for_code
from aiokafka.helpers import create_ssl_context
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from gateway.waiting_records import Content, Partition, Record, WaitingRecords
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.slots import DELIVERY_SECONDS_MAX

log = logging.getLogger(__name__)

REQUEST_SECONDS_MAX = 4.0
SEND_SECONDS_MAX = DELIVERY_SECONDS_MAX - REQUEST_SECONDS_MAX
METADATA_SECONDS_MAX = 5.0
"""Added partitions are known after this time."""
RETRY_S = 0.25
CLOSE_SECONDS_MAX = 1.0
BATCH_BYTES_MAX = 64 * 1024
"""Of one partition in one request. Brokers accept a megabyte by default."""
ALL_REPLICAS = -1
NO_ANSWER = (-1, -1)  # an unknown error

Batches = dict[Partition, tuple[list[Record], bytes]]


class BatchProducer:
    """`connect` must have ended before `send`, and `run` must be running meanwhile. Everything but `partitions_for` is
    called on the event loop."""

    def __init__(self, options: dict[str, Any], topics: Sequence[str]) -> None:
        """`options`: address and security, as kafka-python takes them."""
        self._options, self._topics = options, topics
        self._client: AIOKafkaClient | None = None
        self._records = WaitingRecords(SEND_SECONDS_MAX)
        self._requests: dict[int, asyncio.Task[None]] = {}  # by broker
        self._is_stale = self._is_scheduled = False

    async def connect(self) -> None:
        """Raises `KafkaError`, or `OSError` for an unreadable certificate. It may be called again."""
        self._loop = asyncio.get_running_loop()
        if self._client is None:
            self._client = AIOKafkaClient(
                **asyncio_options(self._options), request_timeout_ms=int(REQUEST_SECONDS_MAX * 1000),
                metadata_max_age_ms=int(METADATA_SECONDS_MAX * 1000),
            )  # fmt: skip
        await self._client.bootstrap()
        await self._client.set_topics(self._topics)
        for topic in self._topics:
            self.partitions_for(topic)

    async def run(self) -> None:
        """Repeat what failed, and give up what has waited too long, until cancelled."""
        while True:
            await asyncio.sleep(RETRY_S)
            self._records.resume()
            self._fail_expired()
            if self._is_stale:
                self._is_stale = False
                self._connected.force_metadata_update()
            self._start_requests()

    async def close(self, seconds_max: float) -> None:
        """Wait for what was sent, but not longer than this."""
        if self._client is None:
            return
        ends_at = time.monotonic() + seconds_max
        while not self._records.is_empty and time.monotonic() < ends_at:
            self._start_requests()
            await asyncio.sleep(RETRY_S)
        for request in self._requests.values():
            request.cancel()
        with suppress(TimeoutError):  # a broker that reads nothing keeps its connection from closing
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self._client.close()

    def partitions_for(self, topic: str) -> set[int]:
        """Called on any thread. Raises `KafkaError` while the topic is not known."""
        partitions: set[int] | None = self._connected.cluster.partitions_for_topic(topic)
        if partitions is None:
            raise UnknownTopicOrPartitionError(topic)
        return partitions

    def send(
        self, topic: str, *, key: bytes, value: bytes, headers: list[tuple[str, bytes]], partition: int
    ) -> Record:  # fmt: skip
        """Returns at once. Raises `ValueError` if the client does not know the partition."""
        to = Partition(topic, partition)
        if self._connected.cluster.leader_for_partition(to) is None:
            raise ValueError(f"unknown partition {partition} of {topic}")
        record = self._records.append(to, (key, value, headers), time.monotonic())
        if not self._is_scheduled:  # after all callers that are ready to send, so their records share a request
            self._is_scheduled = True
            self._loop.call_soon(self._start_requests)
        return record

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    @property
    def _connected(self) -> AIOKafkaClient:
        assert self._client is not None
        return self._client

    def _start_requests(self) -> None:
        self._is_scheduled = False
        by_leader = defaultdict(list)
        for partition in self._records.sendable():
            by_leader[self._connected.cluster.leader_for_partition(partition)].append(partition)
        for broker, partitions in by_leader.items():
            if broker in (None, -1):
                self._is_stale = True
            elif broker not in self._requests:
                self._requests[broker] = self._loop.create_task(self._request(broker, partitions))

    async def _request(self, broker: int, partitions: Sequence[Partition]) -> None:
        try:
            # Connect before records are taken, because what is taken must be sent at once.
            if await self._connected.ready(broker):
                await self._exchange(broker, self._take_batches(partitions))
            else:
                self._records.pause(partitions)
        finally:
            del self._requests[broker]
        self._start_requests()

    def _take_batches(self, partitions: Sequence[Partition]) -> Batches:
        now = self._fail_expired()
        batches: Batches = {}
        for partition in partitions:
            builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, BATCH_BYTES_MAX)

            def fits(number: int, content: Content, append: Any = builder.append) -> bool:
                return append(number, None, *content) is not None

            if records := self._records.take(partition, now, fits):
                batches[partition] = records, bytes(builder.build())
        return batches

    async def _exchange(self, broker: int, batches: Batches) -> None:
        """Send the batches and settle them."""
        by_topic = defaultdict(list)
        for (topic, number), (_, content) in batches.items():
            by_topic[topic].append((number, content))
        if not by_topic:
            return
        request = ProduceRequest(None, ALL_REPLICAS, int(REQUEST_SECONDS_MAX * 1000), list(by_topic.items()))
        try:
            response = await self._connected.send(broker, request)
        except Exception as fault:  # whatever it is, the records must be settled
            log.warning("a request to the broker failed", extra={"broker": broker, "reason": repr(fault)})
            for partition, (records, _) in batches.items():
                self._fail(partition, records, fault)
            return
        answers = {
            (topic, number): (code, offset)
            for topic, partitions in response.topics
            for number, code, offset, *_ in partitions
        }
        for partition, (records, _) in batches.items():
            code, first = answers.get(partition, NO_ANSWER)
            if code:
                self._fail(partition, records, for_code(code)())
                continue
            self._records.end(partition)
            for offset, record in enumerate(records, first):
                _settle(record, RecordPosition(*partition, offset))

    def _fail(self, partition: Partition, records: Sequence[Record], fault: Exception) -> None:
        if getattr(fault, "retriable", True):
            self._records.put_back(partition, records)
            self._is_stale = True
        else:
            self._records.end(partition)
            for record in records:
                _settle(record, fault)

    def _fail_expired(self) -> float:
        """Returns the present moment."""
        now = time.monotonic()
        for record in self._records.expire(now):
            _settle(record, KafkaTimeoutError(f"not sent within {SEND_SECONDS_MAX:g} s"))
        return now


def _settle(record: Record, outcome: RecordPosition | Exception) -> None:
    try:
        if record.on_settled is not None:
            record.on_settled(outcome)
    except Exception:  # the others must be settled, too
        log.exception("a callback of a record failed")


def asyncio_options(options: dict[str, Any]) -> dict[str, Any]:
    """aiokafka's arguments for the same connection."""
    kept = {name: value for name, value in options.items() if not name.startswith("ssl_")}
    if str(options.get("security_protocol", "PLAINTEXT")).endswith("SSL"):
        context = create_ssl_context(
            cafile=options.get("ssl_cafile"), certfile=options.get("ssl_certfile"), keyfile=options.get("ssl_keyfile")
        )
        context.check_hostname = bool(options.get("ssl_check_hostname", True))
        kept["ssl_context"] = context
    return kept
