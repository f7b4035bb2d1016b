"""The relay: unpublished rows → topics, in the order of their ids, gone once acknowledged.

It takes rows that are there, never ids past a mark: a transaction that began early may commit late, and its ids would
be lost. One relay for each service holds an advisory lock; a second one waits. Delivery is at least once.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection
from kafka import KafkaProducer
from kafka.errors import KafkaError

from seckill.streams.outbox import NOTIFY_CHANNEL
from seckill.streams.ready import announce

log = logging.getLogger(__name__)

MOST_ROWS = 2000
IDLE_S = 1.0
PAUSE_S = 0.5
ACK_S = 30.0

_NEXT = "SELECT id, topic, key, value FROM streams_outbox WHERE writer = %s ORDER BY id LIMIT %s"
_DONE = "DELETE FROM streams_outbox WHERE id = ANY(%s)"


class Relay:
    def __init__(self, writer: str, bootstrap_servers: str) -> None:
        self._writer = writer
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
            except (DatabaseError, KafkaError) as fault:
                log.warning("relay pauses", extra={"writer": self._writer, "reason": str(fault)})
                self._close()
                close_old_connections()
                connection.close()
                self._stopping.wait(PAUSE_S)
        self._close()

    def _lead(self) -> None:
        """Publish for as long as the lock is ours (it is the session's, and goes with it)."""
        announce()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [zlib.crc32(f"relay {self._writer}".encode())])
            if not cursor.fetchone()[0]:
                self._stopping.wait(IDLE_S)
                return
            cursor.execute(f"LISTEN {NOTIFY_CHANNEL}")
        while not self._stopping.is_set():
            if not self.publish_some():
                self._wait()

    def publish_some(self) -> int:
        """One lot of rows: sent, acknowledged, removed; how many."""
        with connection.cursor() as cursor:
            cursor.execute(_NEXT, [self._writer, MOST_ROWS])
            rows = cursor.fetchall()
            if not rows:
                return 0
            producer = self._connected()
            sent = [producer.send(topic, key=key.encode(), value=bytes(value)) for _, topic, key, value in rows]
            producer.flush(timeout=ACK_S)
            for future in sent:
                future.get(timeout=ACK_S)
            cursor.execute(_DONE, [[row[0] for row in rows]])
        return len(rows)

    def _connected(self) -> KafkaProducer:
        if self._producer is None:
            self._producer = KafkaProducer(
                bootstrap_servers=self._bootstrap,
                client_id=f"relay.{self._writer}",
                acks="all",
                enable_idempotence=True,
                linger_ms=0,
                compression_type=None,
            )
        return self._producer

    def _close(self) -> None:
        if self._producer is not None:
            self._producer.close(timeout=5)
            self._producer = None

    def _wait(self) -> None:
        """Until somebody publishes, or a second has passed."""
        connection.ensure_connection()
        deadline = time.monotonic() + IDLE_S
        for _ in connection.connection.notifies(timeout=max(0.0, deadline - time.monotonic()), stop_after=1):
            break
