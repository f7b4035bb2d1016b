"""The consume loop: records of topics → handlers, exactly once in effect.

One batch of one partition is one transaction: offsets advanced under a fenced claim, effects, outbox. Then the
offsets are committed to the broker, too, for tools to see. What fails passingly is tried again after a pause, that
partition alone; what fails for good is found by halving the batch and becomes a dead letter, in the same
transaction as the offsets.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db import Error as DatabaseError
from django.db import close_old_connections, transaction
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
from redis.exceptions import RedisError

from seckill.envelope import BadEnvelope, decode
from seckill.streams import cluster, faults, letters, offsets
from seckill.streams.ready import announce
from seckill.streams.records import Batch, Handler, Permanent, Received

log = logging.getLogger(__name__)

MOST_RECORDS = 500
POLL_MS = 200
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0

PASSING = (DatabaseError, RedisError, KafkaError, ConnectionError, TimeoutError)


class Pause(NamedTuple):
    """A partition that is left alone for a while."""

    until: float
    seconds: float


class Loop:
    def __init__(self, handler: Handler, bootstrap_servers: str, client_id: str) -> None:
        self._handler = handler
        self._bootstrap = bootstrap_servers
        self._client_id = client_id
        self._claims: dict[TopicPartition, offsets.Claim] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._pauses: dict[TopicPartition, Pause] = {}
        self._new: set[TopicPartition] = set()
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Finish the batch under way, leave the group, return. Safe in a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        self._cluster = cluster.describe(self._bootstrap, self._handler.topics)
        self._consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            client_id=self._client_id,
            group_id=self._handler.group,
            enable_auto_commit=False,
            auto_offset_reset="none",
            max_poll_records=MOST_RECORDS,
            fetch_max_wait_ms=POLL_MS,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=1_000,
        )
        try:
            self._consumer.subscribe([topic.name for topic in self._handler.topics], listener=_Listener(self))
            while not self._stopping.is_set():
                self._turn()
        finally:
            self._consumer.close(autocommit=False)

    def _turn(self) -> None:
        polled = self._consumer.poll(timeout_ms=POLL_MS, max_records=MOST_RECORDS)
        if self._new:
            self._claim_new()
        for partition, records in polled.items():
            if partition in self._claims and not self._stopping.is_set():
                self._work(partition, records)
        now = time.monotonic()
        for partition in [partition for partition, pause in self._pauses.items() if pause.until <= now]:
            self._resume(partition)

    # ── assignment ───────────────────────────────────────────────────────────────────────────────

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """On the client's own thread, where nothing may block: hold the partitions still until they are claimed."""
        for partition in partitions:
            self._consumer.seek(partition, 0)  # a position of some sort, or the client would go and ask for one
            self._consumer.pause(partition)
        self._new.update(partitions)

    def _claim_new(self) -> None:
        """Claim what was assigned and go on where the rows say; an offset outside the log stops with an alarm."""
        partitions = sorted(self._new)
        starts = self._consumer.beginning_offsets(partitions)
        ends = self._consumer.end_offsets(partitions)
        for partition in partitions:
            if partition not in self._new:
                continue  # taken away meanwhile
            topic_id = self._cluster.topic_ids[partition.topic]
            claim = offsets.claim(
                self._cluster.id, topic_id, partition.topic, partition.partition, self._handler.group, starts[partition]
            )
            if not starts[partition] <= claim.next_offset <= ends[partition]:
                raise OutsideTheLog(partition, claim.next_offset, starts[partition], ends[partition])
            self._new.discard(partition)
            self._claims[partition] = claim
            self._go_to(partition, claim.next_offset)
            self._consumer.resume(partition)
        announce()

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._new.discard(partition)
            self._claims.pop(partition, None)
            self._pauses.pop(partition, None)

    def _go_to(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset
        self._consumer.seek(partition, offset)

    # ── work ─────────────────────────────────────────────────────────────────────────────────────

    def _work(self, partition: TopicPartition, records: Sequence[Any]) -> None:
        start, end = self._positions[partition], records[-1].offset + 1
        try:
            self._settle(partition, records, start, end)
        except offsets.Fenced as fenced:
            log.warning("fenced", extra={"reason": str(fenced)})
            self.revoked([partition])
            self._consumer.pause(partition)
        except PASSING as fault:
            self._pause(partition, start, fault)
        else:
            self._positions[partition] = end
            self._pauses.pop(partition, None)
            self._consumer.commit_async({partition: OffsetAndMetadata(end, "", -1)})

    def _settle(self, partition: TopicPartition, records: Sequence[Any], start: int, end: int) -> None:
        """One transaction; where a record is at fault for good, halves, down to the one that is."""
        try:
            self._attempt(partition, records, start, end)
        except PASSING:
            raise
        except offsets.Fenced:
            raise
        except Exception as fault:
            if len(records) == 1:
                self._bury(partition, records[0], start, end, fault)
                return
            middle = len(records) // 2
            border = records[middle].offset
            self._settle(partition, records[:middle], start, border)
            self._positions[partition] = border
            self._settle(partition, records[middle:], border, end)

    def _attempt(self, partition: TopicPartition, records: Sequence[Any], start: int, end: int) -> None:
        claim = self._claims[partition]
        with transaction.atomic():
            received = [_received(record) for record in records]
            self._handler.handle(
                Batch(claim.cluster_id, claim.topic_id, partition.topic, partition.partition, received)
            )
            offsets.advance(claim, start, end)
            faults.point(f"{self._handler.group}.before_commit")
        faults.point(f"{self._handler.group}.after_commit")

    def _bury(self, partition: TopicPartition, record: Any, start: int, end: int, fault: Exception) -> None:
        claim = self._claims[partition]
        with transaction.atomic():
            letters.bury(claim, record, reason=f"{type(fault).__name__}: {fault}")
            offsets.advance(claim, start, end)
        log.error(
            "dead letter",
            extra={"place": f"{partition.topic}-{partition.partition}@{record.offset}", "reason": str(fault)},
        )

    def _pause(self, partition: TopicPartition, start: int, fault: Exception) -> None:
        """Try this partition again later; poll on meanwhile, or the group takes us for dead."""
        before = self._pauses.get(partition)
        seconds = FIRST_PAUSE_S if before is None else min(2 * before.seconds, LONGEST_PAUSE_S)
        log.warning("paused", extra={"partition": str(partition), "seconds": seconds, "reason": str(fault)})
        self._pauses[partition] = Pause(time.monotonic() + seconds, seconds)
        self._consumer.pause(partition)
        self._go_to(partition, self._positions.get(partition, start))
        close_old_connections()

    def _resume(self, partition: TopicPartition) -> None:
        self._pauses[partition] = self._pauses[partition]._replace(until=float("inf"))
        self._consumer.resume(partition)


class OutsideTheLog(Exception):
    """The log does not have what comes next for a group: evidence is missing, so nobody guesses."""

    def __init__(self, partition: TopicPartition, wanted: int, start: int, end: int) -> None:
        super().__init__(f"{partition.topic}-{partition.partition}: offset {wanted} is outside {start} to {end}")


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # untyped there
    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:
        self._loop.revoked(revoked)

    def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        self._loop.assigned(assigned)


def _received(record: Any) -> Received:
    try:
        envelope = decode(record.value)
        key = (record.key or b"").decode()
    except (BadEnvelope, UnicodeDecodeError) as bad:
        raise Permanent(str(bad)) from bad
    return Received(record.topic, record.partition, record.offset, record.timestamp, key, envelope)
