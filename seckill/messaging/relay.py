"""Shell: the relay publishes outbox rows in the order of their ids, and deletes them when the broker acknowledges.

It selects the rows that exist, never "ids above the last one", because a transaction that began early may commit late
with lower ids. The relay of a writer holds an advisory lock, so a second process only waits. Delivery is at least once.

Each partition is handled on its own (seckill/messaging/in_flight_rows.py), so an offline partition delays only its
own rows.

Order per key: the producer is idempotent, so the broker accepts the records of a partition only in order, and records
never expire, so none can overtake a dropped one. If a relay dies, its rows remain, and the next relay sends them again
from the first one: repeated, but in order.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import zlib
from collections.abc import Sequence
from typing import Any

import psycopg
from django.db import Error as DatabaseError
from django.db import connection
from kafka import KafkaProducer
from kafka.errors import (
    InvalidRecordError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
)
from kafka.future import Future
from kafka.partitioner import murmur2

from seckill.config.kafka_clients import client_options
from seckill.messaging import fault_points
from seckill.messaging.in_flight_rows import InFlightRows, PartitionName, SentRow
from seckill.messaging.outbox import NOTIFY_CHANNEL
from seckill.messaging.ready_file import mark_ready
from seckill.monitoring import spans

log = logging.getLogger(__name__)

ROWS_MAX = 5000
POLL_SECONDS = 1.0
RETRY_SECONDS = 0.5
CLOSE_SECONDS_MAX = 5.0
FLUSH_SECONDS = 0.5
BATCH_SECONDS_MAX = 1.0
"""How long a batch waits for its acknowledgements. Slower partitions continue in the background."""
POLL_SECONDS_WITH_ROWS_IN_FLIGHT = 0.1
"""The polling interval while a slow partition has unacknowledged rows."""
BATCH_BYTES_MAX = 256 * 1024
NEVER_MS = 2**31 - 1
BLOCK_MS_MAX = 2_000  # shorter than IDLE_SESSION_MS
IDLE_SESSION_MS = 5_000
"""The active relay queries the database at least once a second. If it is frozen or its host is gone, Postgres ends its
session after this time, which releases the lock."""

_SELECT = """
SELECT id, topic, key, value, headers FROM streams_outbox
WHERE writer = %s AND id <> ALL(%s::bigint[]) ORDER BY id LIMIT %s
"""
_DELETE = "DELETE FROM streams_outbox WHERE id = ANY(%s)"
_SET_WRITER = "UPDATE streams_outbox SET writer = %s WHERE id = %s"

RECORD_REJECTIONS = (MessageSizeTooLargeError, RecordListTooLargeError, InvalidRecordError)
"""Rejections that no retry can change."""


class Relay:
    def __init__(self, writers: Sequence[str], bootstrap_servers: str) -> None:
        self._writers = writers
        self._bootstrap = bootstrap_servers
        self._stopping = threading.Event()
        self._producer: KafkaProducer | None = None
        self._in_flight = {writer: InFlightRows() for writer in writers}
        self._alone: set[int] = set()  # rows of a rejected batch, which are sent one by one

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        """Run until stopped. After any fault the rows are still there and are sent again."""
        while not self._stopping.is_set():
            try:
                self._publish_while_active()
            except (DatabaseError, psycopg.Error, KafkaError) as fault:  # `notifies` raises psycopg's own exceptions
                log.warning("relay failed, retrying", extra={"writer": self._writers[0], "reason": str(fault)})
                self._close()
                connection.close()  # this also releases the lock
                self._stopping.wait(RETRY_SECONDS)
        self._close()
        connection.close()

    def _publish_while_active(self) -> None:
        """Publish while this session holds the lock."""
        mark_ready()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [zlib.crc32(f"relay {self._writers[0]}".encode())])
            if not cursor.fetchone()[0]:
                self._stopping.wait(POLL_SECONDS)
                return
            cursor.execute(f"SET idle_session_timeout = {IDLE_SESSION_MS}")
            cursor.execute(f"LISTEN {NOTIFY_CHANNEL}")
        log.info("relay active", extra={"writer": self._writers[0]})
        while not self._stopping.is_set():
            if not sum(self.publish_some(writer) for writer in self._writers):
                has_rows_in_flight = any(in_flight.has_any for in_flight in self._in_flight.values())
                self._wait(POLL_SECONDS_WITH_ROWS_IN_FLIGHT if has_rows_in_flight else POLL_SECONDS)

    def publish_some(self, writer: str) -> int:
        """Send one batch of rows, delete the acknowledged ones and return their number. Other rows stay in flight, and
        the next batches pass them."""
        in_flight = self._in_flight[writer]
        with connection.cursor() as cursor:
            rows = []
            if not in_flight.is_full:
                cursor.execute(_SELECT, [writer, in_flight.known_ids(), ROWS_MAX])
                rows = cursor.fetchall()
            began_ns = time.time_ns()
            sent = self._send_all(in_flight, rows)
            self._wait_for_acknowledgements(sent, cursor)
            sent_ids = {each.id for each in sent}
            spans.record_sent(((row[1], row[4]) for row in rows if row[0] in sent_ids), began_ns)
            fault_points.trigger(f"relay.{writer}.before_delete")
            acknowledged, rejected = in_flight.take_settled()
            if acknowledged:
                cursor.execute(_DELETE, [acknowledged])
            self._handle_rejections(writer, rejected, cursor)
        return len(acknowledged)

    def _send_all(self, in_flight: InFlightRows, rows: Sequence[tuple[Any, ...]]) -> list[SentRow]:
        """Send the rows of each partition that has none in flight; the others are blocked."""
        by_partition: dict[PartitionName, list[tuple[Any, ...]]] = {}
        for row in rows:
            by_partition.setdefault(self._partition_for(row[1], row[2]), []).append(row)
        all_sent: list[SentRow] = []
        for partition, waiting in by_partition.items():
            must_send_alone = any(row[0] in self._alone for row in waiting)
            ready = [] if in_flight.is_busy(partition) else waiting[:1] if must_send_alone else waiting
            for row in waiting[len(ready) :]:
                in_flight.add_blocked(partition, row[0])
            if ready:
                sent = [SentRow(row[0], self._send(partition, *row[2:])) for row in ready]
                in_flight.add_sent(partition, sent)
                all_sent += sent
        return all_sent

    def _partition_for(self, topic: str, key: str) -> PartitionName:
        """The partition that Kafka's default partitioner chooses."""
        return topic, (murmur2(key.encode()) & 0x7FFFFFFF) % len(self._connected().partitions_for(topic))

    def _send(self, target: PartitionName, key: str, value: memoryview, headers: str) -> Any:
        pairs = [(name, text.encode()) for name, text in json.loads(headers).items()]
        topic, partition = target
        producer = self._connected()
        try:
            return producer.send(topic, key=key.encode(), value=bytes(value), headers=pairs, partition=partition)
        except RECORD_REJECTIONS as rejected:  # by the client, before it was sent
            return Future().failure(rejected)

    def _wait_for_acknowledgements(self, rows: Sequence[SentRow], cursor: Any) -> None:
        """Wait until all of these are answered, for `BATCH_SECONDS_MAX` at most, or until stopped."""
        give_up = time.monotonic() + BATCH_SECONDS_MAX
        for sent in rows:
            while not sent.future.is_done and not self._stopping.is_set() and time.monotonic() < give_up:
                cursor.execute("SELECT 1")  # fails if the session, and with it the lock, is gone
                try:
                    self._connected().flush(timeout=FLUSH_SECONDS)
                except KafkaTimeoutError:
                    continue

    def _handle_rejections(self, writer: str, rejected: Sequence[tuple[int, BaseException]], cursor: Any) -> None:
        """A record that the broker will never accept must not block the ones behind it. Its row moves to the writer
        `NAME.refused`, for an operator to find. The broker rejects whole batches, so each row is first sent alone."""
        for row, why in rejected:
            if not isinstance(why, RECORD_REJECTIONS):
                raise why
            if row in self._alone:
                log.error("record rejected", extra={"writer": writer, "row": row, "reason": str(why)})
                cursor.execute(_SET_WRITER, [f"{writer}.refused", row])
        first_time = {row for row, _ in rejected} - self._alone
        self._alone = {row for row in self._alone if row not in dict(rejected)} | first_time
        if first_time:
            raise KafkaError(f"{len(first_time)} records were rejected, and are sent one by one: {rejected[0][1]}")

    def _connected(self) -> KafkaProducer:
        if self._producer is None:
            self._producer = KafkaProducer(
                **client_options(self._bootstrap),
                client_id=f"relay.{self._writers[0]}",
                acks="all",
                enable_idempotence=True,
                linger_ms=20,  # a flush ends it earlier, when the batch is complete
                batch_size=BATCH_BYTES_MAX,
                delivery_timeout_ms=NEVER_MS,
                max_block_ms=BLOCK_MS_MAX,
                compression_type=None,
            )
        return self._producer

    def _close(self) -> None:
        """Unacknowledged records are still rows, so nothing needs to wait for them."""
        self._in_flight = {writer: InFlightRows() for writer in self._writers}
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.close(timeout=CLOSE_SECONDS_MAX)
        except KafkaTimeoutError:  # kafka-python 3.0.12 leaves it open then
            producer._sender.force_close()
            producer._sender.join(CLOSE_SECONDS_MAX)
            producer.close(timeout=CLOSE_SECONDS_MAX)

    def _wait(self, seconds: float) -> None:
        """Wait until a transaction with events commits, or until the time is over."""
        connection.ensure_connection()
        deadline = time.monotonic() + seconds
        for _ in connection.connection.notifies(timeout=max(0.0, deadline - time.monotonic()), stop_after=1):
            break
