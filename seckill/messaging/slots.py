"""Shell: a producer that chooses partitions by a slot map, which an operator can change while it sends.

A producer holds a lease, a row with the version of the slot map that it uses. It writes a new version only when nothing
that it sent by an older one is still under way. Once every lease has the new version (or has expired, and the longest
delivery with it), nothing more can arrive in the old partition of a moved slot (seckill/messaging/slot_moves.py).

If the lease cannot be renewed, it expires and this process sends nothing, because slots may have moved since.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection
from kafka.errors import KafkaError

from seckill.messaging.models import Divert, SlotMap
from seckill.messaging.partitioners import SlotTable, slot_of
from seckill.messaging.pinned_users import PinnedUsers
from seckill.messaging.topics import Topic

log = logging.getLogger(__name__)

LEASE_SECONDS = 20.0
LEASE_MARGIN_SECONDS = 2.0
"""This process stops sending so much before its row expires, because clocks drift and threads may be slow."""
RENEW_SECONDS = 0.25
FIRST_LEASE_SECONDS_MAX = 2.0
"""How long `start` waits for the first lease."""
DELIVERY_SECONDS_MAX = 10.0
"""`delivery_timeout_ms` of every producer that writes by slots: nothing that it sent arrives later than this."""
NO_PINNED_USERS = PinnedUsers(())


class Sent(Protocol):
    def add_both(self, on_settled: Callable[[Any], None]) -> Any:
        """`on_settled` is called once the record is acknowledged or has failed, with its position or an exception."""


class Producer(Protocol):
    """kafka-python's producer, or the gateway's."""

    def partitions_for(self, topic: str) -> Collection[int]: ...

    def send(
        self, topic: str, *, key: bytes, value: bytes, headers: list[tuple[str, bytes]], partition: int
    ) -> Sent: ...


class SlotUnavailable(Exception):
    """The record was not sent and will not arrive; retry soon."""


class NoLease(SlotUnavailable):
    """The database or the broker does not answer, so this process does not know where slots are."""


class SlotView(NamedTuple):
    """The slot map as this process knows it, and how long it may rely on it."""

    table: SlotTable
    moving: frozenset[int]
    until: float  # monotonic
    transition: str = ""
    diverted: int = 0
    pinned_users: PinnedUsers = NO_PINNED_USERS

    def partition_for(self, key: bytes) -> int:
        if time.monotonic() >= self.until:
            raise NoLease("the lease has expired, so slots may have moved")
        if self.transition:
            raise SlotUnavailable(f"a {self.transition} is under way")
        slot = slot_of(key)
        if slot in self.moving:
            raise SlotUnavailable(f"slot {slot} is being moved")
        return self.table.partition_of[slot]

    def is_diverted(self, key: bytes) -> bool:
        """Whether this user's requests go to the overflow topic. It is all of them or none."""
        return bool(self.diverted) and key not in self.pinned_users


def ensure_slot_map(topic: Topic, partitions: int) -> None:
    """Create the topic's slot map with even shares, unless it exists."""
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
    """Sends each record to the partition of its key's slot. `start` takes the lease, `close` ends it."""

    def __init__(self, topic: Topic, name: str, producer: Producer) -> None:
        self._topic, self._name, self._producer = topic, name, producer
        self._id = uuid4()
        self._lock = threading.Lock()
        self._is_leased = threading.Event()
        self._known: SlotView | None = None
        self._under_way: Counter[int] = Counter()  # by version, with those in `_ended`
        self._ended: deque[int] = deque()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Take the lease, and keep it on a thread. Raises `NoLease` if that takes too long; it may be called again."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._hold_lease, name=f"slots of {self._topic.name}", daemon=True)
            self._thread.start()
        if not self._is_leased.wait(FIRST_LEASE_SECONDS_MAX):
            raise NoLease("no lease yet")

    def send(
        self,
        key: bytes,
        value: bytes,
        headers: Sequence[tuple[str, bytes]] = (),
        on_settled: Callable[[Any], None] | None = None,
    ) -> Any:
        """Returns the producer's future, at once. Raises `SlotUnavailable` if the slot takes nothing at the moment.

        `on_settled` is called where the producer works, with the record's position or with an exception.
        """
        known = self._begin_send()
        version = known.table.version
        try:
            partition, topic = known.partition_for(key), self._topic_of(known, key).name
            if time.monotonic() >= known.until:  # this process was suspended meanwhile
                raise NoLease("the lease has expired, so slots may have moved")
            sent = self._producer.send(topic, key=key, value=value, headers=list(headers), partition=partition)
        except ValueError as unknown:  # the slot map is newer than the client's metadata
            self._end_send(version)
            raise SlotUnavailable(f"{unknown}: the client does not know this partition yet") from unknown
        except BaseException:
            self._end_send(version)
            raise
        sent.add_both(partial(self._settle, version, on_settled))
        return sent

    def partition_for(self, key: bytes) -> tuple[str, int] | None:
        """The topic and partition to which this key would be sent now; None before the first lease."""
        known = self._known
        return None if known is None else (self._topic_of(known, key).name, known.table.partition_of[slot_of(key)])

    def _topic_of(self, known: SlotView, key: bytes) -> Topic:
        overflow = self._topic.overflow
        return overflow if overflow is not None and known.is_diverted(key) else self._topic

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join(5)

    def _begin_send(self) -> SlotView:
        with self._lock:
            known = self._known
            if known is None or not self._is_leased.is_set():
                raise NoLease("no lease yet")
            self._under_way[known.table.version] += 1
            return known

    def _settle(self, version: int, on_settled: Callable[[Any], None] | None, outcome: Any) -> None:
        self._end_send(version)
        if on_settled is not None:
            on_settled(outcome)

    def _end_send(self, version: int) -> None:
        self._ended.append(version)  # without the lock, because this happens for each purchase

    def _hold_lease(self) -> None:
        """Take the lease before reading the slot map, so an operator who changes the map afterwards sees the lease."""
        leased = False
        try:
            while True:
                try:
                    if not leased:
                        self._write_lease(0)
                        leased = True
                    self._renew()
                except (DatabaseError, SlotMap.DoesNotExist, Divert.DoesNotExist, KafkaError) as fault:
                    log.warning("lease not renewed", extra={"topic": self._topic.name, "reason": str(fault)})
                    close_old_connections()
                except Exception:  # without this thread the gateway could not send any more
                    log.exception("lease not renewed", extra={"topic": self._topic.name})
                    close_old_connections()
                if self._closing.wait(RENEW_SECONDS):
                    break
            with connection.cursor() as cursor:
                cursor.execute(_END, [self._id])
        except DatabaseError:
            pass  # the lease expires on its own
        finally:
            connection.close()

    def _renew(self) -> None:
        """Read the slot map, then write its version into the lease once nothing is under way by an older one."""
        began = time.monotonic()
        row = SlotMap.objects.get(topic=self._topic.name)
        before = self._known
        known = SlotView(
            SlotTable(row.version, tuple(row.partition_of)), frozenset(map(int, row.moving)),
            began if before is None else before.until, row.transition, row.diverted,
            _load_pinned_users(row.diverted, before),
        )  # fmt: skip
        with self._lock:
            self._known = known
            self._under_way.subtract(self._ended.popleft() for _ in range(len(self._ended)))
            self._under_way += Counter()  # drops the counts of zero
            settled = min([*self._under_way, row.version])
        self._write_lease(settled)
        with self._lock:
            self._known = known._replace(until=began + LEASE_SECONDS - LEASE_MARGIN_SECONDS)
        self._is_leased.set()

    def _write_lease(self, version: int) -> None:
        topics = filter(None, (self._topic, self._topic.overflow))
        partitions = min(len(self._producer.partitions_for(topic.name)) for topic in topics)
        with connection.cursor() as cursor:
            cursor.execute(_RENEW, [self._id, self._topic.name, self._name, version, partitions, LEASE_SECONDS])


def _load_pinned_users(divert: int, known: SlotView | None) -> PinnedUsers:
    """The pinned users of a divert. They never change, so they are read once."""
    if not divert:
        return NO_PINNED_USERS
    if known is not None and known.diverted == divert:
        return known.pinned_users
    return PinnedUsers.decode(bytes(Divert.objects.get(id=divert).pinned_users))
