"""Shell: the relay: unpublished rows → topics, in the order of their ids, gone once acknowledged.

It takes rows that are there, never ids past a mark: a transaction that began early may commit late, and its ids would
be lost. One relay for each service holds an advisory lock; a second one waits. Delivery is at least once.

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
from kafka.errors import KafkaError, KafkaTimeoutError

from seckill.streams import faults
from seckill.streams.outbox import NOTIFY_CHANNEL
from seckill.streams.ready import announce

log = logging.getLogger(__name__)

MOST_ROWS = 5000
IDLE_S = 1.0
PAUSE_S = 0.5
CLOSE_S = 5.0
LOOK_UP_S = 0.5
MOST_BATCH = 256 * 1024
NEVER_MS = 2**31 - 1
SILENT_MS = 5_000
"""A leader asks the database at least once a second. One that is silent for so long is frozen or gone, and its session
ends, and the lock with it."""

_NEXT = "SELECT id, topic, key, value, headers FROM streams_outbox WHERE writer = %s ORDER BY id LIMIT %s"
_DONE = "DELETE FROM streams_outbox WHERE id = ANY(%s)"


class Relay:
    def __init__(self, writers: Sequence[str], bootstrap_servers: str) -> None:
        self._writers = writers
        self._bootstrap = bootstrap_servers
        self._stopping = threading.Event()
        self._producer: KafkaProducer | None = None

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
                self._wait()

    def publish_some(self, writer: str) -> int:
        """One lot of rows: sent, acknowledged, removed; how many."""
        with connection.cursor() as cursor:
            cursor.execute(_NEXT, [writer, MOST_ROWS])
            rows = cursor.fetchall()
            if not rows:
                return 0
            sent = [self._send(*row[1:]) for row in rows]
            if not self._acknowledged(sent):
                return 0
            faults.point(f"relay.{writer}.before_delete")
            cursor.execute(_DONE, [[row[0] for row in rows]])
        return len(rows)

    def _send(self, topic: str, key: str, value: memoryview, headers: str) -> Any:
        pairs = [(name, text.encode()) for name, text in json.loads(headers).items()]
        return self._connected().send(topic, key=key.encode(), value=bytes(value), headers=pairs)

    def _acknowledged(self, sent: Sequence[Any]) -> bool:
        """True when all are; False if we were stopped before; `KafkaError` if one never will be."""
        while not self._is_flushed():
            if self._stopping.is_set():
                return False
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")  # is the lock still ours?
        for future in sent:
            if future.failed():
                raise future.exception
        return True

    def _is_flushed(self) -> bool:
        try:
            self._connected().flush(timeout=LOOK_UP_S)
        except KafkaTimeoutError:
            return False
        return True

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
                compression_type=None,
            )
        return self._producer

    def _close(self) -> None:
        """What is not acknowledged is still a row: it need not be waited for."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.close(timeout=CLOSE_S)
        except KafkaTimeoutError:  # and kafka-python 3.0.12 has left it open
            producer._sender.force_close()
            producer._sender.join(CLOSE_S)
            producer.close(timeout=CLOSE_S)

    def _wait(self) -> None:
        """Until somebody publishes, or a second has passed."""
        connection.ensure_connection()
        deadline = time.monotonic() + IDLE_S
        for _ in connection.connection.notifies(timeout=max(0.0, deadline - time.monotonic()), stop_after=1):
            break
