"""Shell: the relay: unpublished rows → topics, in the order of their ids, gone once acknowledged.

It takes rows that are there, never ids past a mark: a transaction that began early may commit late, and its ids would
be lost. One relay for each service holds an advisory lock; a second one waits. Delivery is at least once.

Each partition is a lane of its own (seckill/streams/lanes.py): one that is offline delays its own rows only.

Order per key: the producer is idempotent, so a broker takes nothing of a partition out of turn, and a record never
expires by itself: nothing can pass one that was given up. A relay that is ended in between leaves the rows, and the
next one sends them again from the first: doubled, not reordered.
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

from seckill.streams import faults
from seckill.streams.lanes import Lane, Lanes, Sent
from seckill.streams.outbox import NOTIFY_CHANNEL
from seckill.streams.ready import announce

log = logging.getLogger(__name__)

MOST_ROWS = 5000
IDLE_S = 1.0
PAUSE_S = 0.5
CLOSE_S = 5.0
LOOK_UP_S = 0.5
LOT_S = 1.0
"""A lot waits for its acknowledgements for so long; a partition that needs more is left behind by the others."""
BUSY_S = 0.1
"""While one is left behind, new rows are looked for this often, and its acknowledgements too."""
MOST_BATCH = 256 * 1024
NEVER_MS = 2**31 - 1
MOST_BLOCK_MS = 2_000  # shorter than what a leader may be silent
SILENT_MS = 5_000
"""A leader asks the database at least once a second. One that is silent for so long is frozen or gone, and its session
ends, and the lock with it."""

_NEXT = """
SELECT id, topic, key, value, headers FROM streams_outbox
WHERE writer = %s AND id <> ALL(%s::bigint[]) ORDER BY id LIMIT %s
"""
_DONE = "DELETE FROM streams_outbox WHERE id = ANY(%s)"
_ASIDE = "UPDATE streams_outbox SET writer = %s WHERE id = %s"

OF_THE_RECORD = (MessageSizeTooLargeError, RecordListTooLargeError, InvalidRecordError)
"""What no other try and no other moment will change."""


class Relay:
    def __init__(self, writers: Sequence[str], bootstrap_servers: str) -> None:
        self._writers = writers
        self._bootstrap = bootstrap_servers
        self._stopping = threading.Event()
        self._producer: KafkaProducer | None = None
        self._lanes = {writer: Lanes() for writer in writers}
        self._alone: set[int] = set()  # rows of a batch that was refused

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        """Until stopped; whatever fails, the rows are still there and are taken again."""
        while not self._stopping.is_set():
            try:
                self._lead()
            except (DatabaseError, psycopg.Error, KafkaError) as fault:  # psycopg's own from the wait for a notice
                log.warning("relay pauses", extra={"writer": self._writers[0], "reason": str(fault)})
                self._close()
                connection.close()  # and the lock with it
                self._stopping.wait(PAUSE_S)
        self._close()
        connection.close()

    def _lead(self) -> None:
        """Publish for as long as the lock is ours (it is the session's, and goes with it)."""
        announce()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [zlib.crc32(f"relay {self._writers[0]}".encode())])
            if not cursor.fetchone()[0]:
                self._stopping.wait(IDLE_S)
                return
            cursor.execute(f"SET idle_session_timeout = {SILENT_MS}")
            cursor.execute(f"LISTEN {NOTIFY_CHANNEL}")
        log.info("relay leads", extra={"writer": self._writers[0]})
        while not self._stopping.is_set():
            if not sum(self.publish_some(writer) for writer in self._writers):
                is_busy = any(lanes.is_any_busy for lanes in self._lanes.values())
                self._wait(BUSY_S if is_busy else IDLE_S)

    def publish_some(self, writer: str) -> int:
        """One lot of rows: sent, and removed as far as they are acknowledged; how many went. What a partition does not
        acknowledge in time stays under way, and the next lots go past it."""
        lanes = self._lanes[writer]
        with connection.cursor() as cursor:
            rows = []
            if not lanes.are_full:
                cursor.execute(_NEXT, [writer, lanes.known(), MOST_ROWS])
                rows = cursor.fetchall()
            taken = self._send_all(lanes, rows)
            self._await(taken, cursor)
            faults.point(f"relay.{writer}.before_delete")
            acknowledged, refused = lanes.settle()
            if acknowledged:
                cursor.execute(_DONE, [acknowledged])
            self._put_aside(writer, refused, cursor)
        return len(acknowledged)

    def _send_all(self, lanes: Lanes, rows: Sequence[tuple[Any, ...]]) -> list[Sent]:
        """Of each partition that is not busy."""
        by_lane: dict[Lane, list[tuple[Any, ...]]] = {}
        for row in rows:
            by_lane.setdefault(self._lane(row[1], row[2]), []).append(row)
        taken: list[Sent] = []
        for lane, its in by_lane.items():
            now = its[:1] if any(row[0] in self._alone for row in its) else its
            if lanes.is_busy(lane):
                now = []
            for row in its[len(now) :]:
                lanes.wait_behind(lane, row[0])
            if now:
                sent = [Sent(row[0], self._send(lane, *row[2:])) for row in now]
                lanes.send(lane, sent)
                taken += sent
        return taken

    def _lane(self, topic: str, key: str) -> Lane:
        """The partition that the default partitioner would choose."""
        return topic, (murmur2(key.encode()) & 0x7FFFFFFF) % len(self._connected().partitions_for(topic))

    def _send(self, lane: Lane, key: str, value: memoryview, headers: str) -> Any:
        pairs = [(name, text.encode()) for name, text in json.loads(headers).items()]
        topic, partition = lane
        producer = self._connected()
        try:
            return producer.send(topic, key=key.encode(), value=bytes(value), headers=pairs, partition=partition)
        except OF_THE_RECORD as refused:  # by the client: no broker has seen it
            return Future().failure(refused)

    def _await(self, taken: Sequence[Sent], cursor: Any) -> None:
        """Until all of these are answered, for `LOT_S` at most, or until we are to stop."""
        give_up = time.monotonic() + LOT_S
        for sent in taken:
            while not sent.future.is_done and not self._stopping.is_set() and time.monotonic() < give_up:
                cursor.execute("SELECT 1")  # is the lock still ours?
                try:
                    self._connected().flush(timeout=LOOK_UP_S)
                except KafkaTimeoutError:
                    continue

    def _put_aside(self, writer: str, refused: Sequence[tuple[int, BaseException]], cursor: Any) -> None:
        """A record that the broker will never take must not stop those behind it: it keeps its row, under another
        writer, for an operator to see. A batch is refused as a whole, so each of it is tried alone first."""
        for row, why in refused:
            if not isinstance(why, OF_THE_RECORD):
                raise why
            if row in self._alone:
                log.error("a record is refused", extra={"writer": writer, "row": row, "reason": str(why)})
                cursor.execute(_ASIDE, [f"{writer}.refused", row])
        first_time = {row for row, _ in refused} - self._alone
        self._alone = {row for row in self._alone if row not in dict(refused)} | first_time
        if first_time:
            raise KafkaError(f"{len(first_time)} records were refused, and are tried one by one: {refused[0][1]}")

    def _connected(self) -> KafkaProducer:
        if self._producer is None:
            self._producer = KafkaProducer(
                bootstrap_servers=self._bootstrap,
                client_id=f"relay.{self._writers[0]}",
                acks="all",
                enable_idempotence=True,
                linger_ms=20,  # until the lot is whole, that is: then it is flushed
                batch_size=MOST_BATCH,
                delivery_timeout_ms=NEVER_MS,
                max_block_ms=MOST_BLOCK_MS,
                compression_type=None,
            )
        return self._producer

    def _close(self) -> None:
        """What is not acknowledged is still a row: it need not be waited for."""
        self._lanes = {writer: Lanes() for writer in self._writers}
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.close(timeout=CLOSE_S)
        except KafkaTimeoutError:  # and kafka-python 3.0.12 has left it open
            producer._sender.force_close()
            producer._sender.join(CLOSE_S)
            producer.close(timeout=CLOSE_S)

    def _wait(self, seconds: float) -> None:
        """Until somebody publishes, or so long."""
        connection.ensure_connection()
        deadline = time.monotonic() + seconds
        for _ in connection.connection.notifies(timeout=max(0.0, deadline - time.monotonic()), stop_after=1):
            break
