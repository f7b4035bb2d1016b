"""Shell: writing by slots: what a producer may send where, by a table that can change while it sends.

A producer holds a lease and says which version of the table it knows; it says so only when nothing that it has sent by
an older version is still under way. So whoever moves a slot knows, once every lease has the new version (or has ended,
and the longest delivery with it), that nothing more can arrive where the slot was (seckill/streams/moving.py).

A lease that cannot be renewed ends: this process then sends nothing, for it may not know what has been moved.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection
from kafka import KafkaProducer
from kafka.errors import KafkaError

from seckill.streams.models import Divert, SlotMap
from seckill.streams.partitioners import SlotTable, slot_of
from seckill.streams.stayers import Stayers
from seckill.topics import Topic

log = logging.getLogger(__name__)

LEASE_S = 20.0
MARGIN_S = 2.0
"""Ours ends so much earlier than the row says: clocks may drift, and threads may be slow."""
BEAT_S = 0.25
FIRST_S = 2.0
"""So long the first records wait for the first lease."""
MOST_DELIVERY_S = 10.0
"""`delivery_timeout_ms` of every producer that writes by slots: afterwards nothing of it arrives any more."""
NOBODY = Stayers(())


class NotNow(Exception):
    """The record was not sent, and nothing of it will arrive; soon it can be."""


class NoLease(NotNow):
    """Broker or database do not answer: nobody has moved anything, it is only not known."""


class Known(NamedTuple):
    """What this process goes by."""

    table: SlotTable
    moving: frozenset[int]
    until: float  # monotonic
    turning: str = ""
    diverted: int = 0
    stayers: Stayers = NOBODY

    def place(self, key: bytes) -> int:
        if time.monotonic() >= self.until:
            raise NoLease("the lease has ended: it is not known what has been moved")
        if self.turning:
            raise NotNow(f"{self.turning}: everybody waits for that")
        slot = slot_of(key)
        if slot in self.moving:
            raise NotNow(f"slot {slot} is being moved")
        return self.table.partition_of[slot]

    def is_diverted(self, key: bytes) -> bool:
        """A user is always on one side: all of his requests go beside, or none."""
        return bool(self.diverted) and key not in self.stayers


def ensure(topic: Topic, partitions: int) -> None:
    """The table of a topic that has none yet: even shares."""
    table = SlotTable.even(partitions)
    SlotMap.objects.get_or_create(
        topic=topic.name, defaults={"version": table.version, "partition_of": list(table.partition_of)}
    )


_RENEW = """
INSERT INTO streams_producer_lease (id, topic, name, version, partitions, expires_at)
VALUES (%s, %s, %s, %s, %s, now() + make_interval(secs => %s))
ON CONFLICT (id) DO UPDATE SET
    version = EXCLUDED.version, partitions = EXCLUDED.partitions, expires_at = EXCLUDED.expires_at
"""
_END = "DELETE FROM streams_producer_lease WHERE id = %s"


class SlotWriter:
    """Sends to the partition of a key's slot. Begins its lease with the first record; `close` ends it."""

    def __init__(self, topic: Topic, name: str, producer: KafkaProducer) -> None:
        self._topic, self._name, self._producer = topic, name, producer
        self._id = uuid4()
        self._lock = threading.Lock()
        self._begun = threading.Event()
        self._known: Known | None = None
        self._under_way: Counter[int] = Counter()  # by version
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def send(self, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]] = ()) -> Any:
        """A future, as the producer gives it; `NotNow` if the key has no place at the moment."""
        known = self._enter()
        version = known.table.version
        try:
            partition, topic = known.place(key), self._topic_of(known, key).name
            if time.monotonic() >= known.until:  # this process has slept since
                raise NoLease("the lease has ended: it is not known what has been moved")
            sent = self._producer.send(topic, key=key, value=value, headers=list(headers), partition=partition)
        except ValueError as unknown:  # the table is newer than what the client knows of the topic
            self._leave(version)
            raise NotNow(f"{unknown}: it is not known here yet") from unknown
        except BaseException:
            self._leave(version)
            raise
        sent.add_both(lambda _: self._leave(version))
        return sent

    def goes_to(self, key: bytes) -> str:
        """The name of the topic that it would be sent to now, as far as is known."""
        known = self._known
        return self._topic.name if known is None else self._topic_of(known, key).name

    def place_of(self, key: bytes) -> tuple[str, int] | None:
        """Topic and partition that it would be sent to now, as far as is known."""
        known = self._known
        return None if known is None else (self._topic_of(known, key).name, known.table.partition_of[slot_of(key)])

    def _topic_of(self, known: Known, key: bytes) -> Topic:
        beside = self._topic.beside
        return beside if beside is not None and known.is_diverted(key) else self._topic

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join(5)

    def _enter(self) -> Known:
        if not self._begun.is_set():
            with self._lock:
                if self._thread is None:
                    self._begin()
            if not self._begun.wait(FIRST_S):
                raise NoLease("no lease yet")
        with self._lock:
            known = self._known
            assert known is not None
            self._under_way[known.table.version] += 1
            return known

    def _leave(self, version: int) -> None:
        with self._lock:
            self._under_way[version] -= 1

    def _begin(self) -> None:
        """A thread of ours takes the first lease, and keeps it from then on."""
        self._thread = threading.Thread(target=self._keep, name=f"slots of {self._topic.name}", daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        """The lease comes before the first look: whoever changes the table after that look finds the lease."""
        leased = False
        try:
            while True:
                try:
                    if not leased:
                        self._lease(0)
                        leased = True
                    self._renew()
                except (DatabaseError, SlotMap.DoesNotExist, Divert.DoesNotExist, KafkaError) as fault:
                    log.warning("lease not renewed", extra={"topic": self._topic.name, "reason": str(fault)})
                    close_old_connections()
                except Exception:  # whatever it is: without this thread the gateway sends nothing any more
                    log.exception("lease not renewed", extra={"topic": self._topic.name})
                    close_old_connections()
                if self._closing.wait(BEAT_S):
                    break
            with connection.cursor() as cursor:
                cursor.execute(_END, [self._id])
        except DatabaseError:
            pass  # it ends by itself
        finally:
            connection.close()

    def _renew(self) -> None:
        """Go by the table as it is now; then say so, as soon as nothing is under way by an older one."""
        began = time.monotonic()
        row = SlotMap.objects.get(topic=self._topic.name)
        before = self._known
        known = Known(
            SlotTable(row.version, tuple(row.partition_of)), frozenset(map(int, row.moving)),
            began if before is None else before.until, row.turning, row.diverted, _stayers(row.diverted, before),
        )  # fmt: skip
        with self._lock:
            self._known = known
            self._under_way += Counter()  # forgets what is settled
            settled = min([*self._under_way, row.version])
        self._lease(settled)
        with self._lock:
            self._known = known._replace(until=began + LEASE_S - MARGIN_S)
        self._begun.set()

    def _lease(self, version: int) -> None:
        topics = filter(None, (self._topic, self._topic.beside))
        partitions = min(len(self._producer.partitions_for(topic.name)) for topic in topics)
        with connection.cursor() as cursor:
            cursor.execute(_RENEW, [self._id, self._topic.name, self._name, version, partitions, LEASE_S])


def _stayers(divert: int, known: Known | None) -> Stayers:
    """Of a divert; they never change, so they are read once."""
    if not divert:
        return NOBODY
    if known is not None and known.diverted == divert:
        return known.stayers
    return Stayers.decode(bytes(Divert.objects.get(id=divert).stayers))
