"""Processes one batch of one partition: offset, effects and outbox rows in one transaction, under a fenced claim.

Transient faults are raised, so the loop retries later. A record that fails for good is found by halving the batch, and
becomes a dead letter in the same transaction as the offset. Records that may have killed a process are processed one
by one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from enum import Enum
from typing import Any

from django.db import InterfaceError, InternalError, OperationalError, transaction
from kafka.errors import KafkaError
from redis.exceptions import RedisError

from seckill.messaging import dead_letters, fault_points, offsets
from seckill.messaging.dead_letter_circuit import DeadLetterCircuit
from seckill.messaging.offsets import PartitionClaim
from seckill.messaging.records import (
    CRASHED,
    Batch,
    Handler,
    HandlesDeadLetters,
    PermanentFailure,
    TransientFailure,
    decode_record,
    record_fingerprint,
)
from seckill.monitoring import spans, traces

log = logging.getLogger(__name__)

ATTEMPTS_MAX = 3
CRASHES_MAX = 3


class RetryLater(Exception):
    """A record has failed, but has attempts left."""


TRANSIENT_FAULTS = (
    OperationalError, InterfaceError, InternalError, RedisError, KafkaError, ConnectionError, TimeoutError,
    TransientFailure, RetryLater,
)  # fmt: skip


class DeliveryGuarantee(Enum):
    """When the offset advances. The services use EXACTLY_ONCE; the others exist to show what they break."""

    AT_MOST_ONCE = "at-most-once"  # before the effects: a crash in between loses them
    AT_LEAST_ONCE = "at-least-once"  # after the effects: a crash in between repeats them
    EXACTLY_ONCE = "exactly-once"  # in the transaction of the effects


class BatchWorker:
    def __init__(self, handler: Handler, delivery: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE) -> None:
        self._handler = handler
        self._delivery = delivery
        self._circuit = DeadLetterCircuit()
        self._failures_in_a_row: dict[
            tuple[str, int], tuple[int, int]
        ] = {}  # (topic, partition) → (offset, failures in a row)

    def process(self, claim: PartitionClaim, records: Sequence[Any], start: int) -> int:
        """Process all the records, which begin at `start`, and return the offset after them. If this raises, a part of
        them may have been committed: `offsets.current_offset` says how many."""
        if start == claim.next_offset and claim.crash_count >= CRASHES_MAX:
            reason = f"{CRASHED} {claim.crash_count} times while processing this record"
            start = self._commit_dead_letter(claim, records[0], start, reason, claim.crash_count)
            records = records[1:]
        alone_count = sum(1 for record in records if record.offset < claim.single_step_until)
        for record in records[:alone_count]:
            start = self._process_range(claim, [record], start, alone=True)
        return self._process_range(claim, records[alone_count:], start) if records[alone_count:] else start

    def _process_range(self, claim: PartitionClaim, records: Sequence[Any], start: int, *, alone: bool = False) -> int:
        """Commit the records in one transaction. If one of them fails for good, split in halves until it is found."""
        end: int = records[-1].offset + 1
        fault_points.trigger(f"{self._handler.group}.before_batch")
        offsets.note_attempt(claim, start, end, alone=alone)
        try:
            with spans.processing(claim.group, claim.topic, claim.partition, records):
                self._attempt(claim, records, start, end)
        except (*TRANSIENT_FAULTS, offsets.ClaimFenced):
            raise
        except Exception as fault:
            if len(records) == 1:
                return self._handle_failure(claim, records[0], start, fault)
            middle = len(records) // 2
            return self._process_range(claim, records[middle:], self._process_range(claim, records[:middle], start))
        self._failures_in_a_row.pop((claim.topic, claim.partition), None)
        self._circuit.note(time.monotonic(), good=len(records))
        return end

    def _attempt(self, claim: PartitionClaim, records: Sequence[Any], start: int, end: int) -> None:
        last = record_fingerprint(records[-1])
        if self._delivery is DeliveryGuarantee.AT_MOST_ONCE:
            with transaction.atomic():
                offsets.advance(claim, start, end, last)
            fault_points.trigger(f"{self._handler.group}.between")
        with transaction.atomic():
            self._handle(claim, records)
            if self._delivery is DeliveryGuarantee.EXACTLY_ONCE:
                offsets.advance(claim, start, end, last)
            fault_points.trigger(f"{self._handler.group}.before_commit")
        if self._delivery is DeliveryGuarantee.AT_LEAST_ONCE:
            fault_points.trigger(f"{self._handler.group}.between")
            with transaction.atomic():
                offsets.advance(claim, start, end, last)
        fault_points.trigger(f"{self._handler.group}.after_commit")

    def _handle(self, claim: PartitionClaim, records: Sequence[Any]) -> None:
        decoded = [decode_record(record) for record in records]
        if fault_points.are_on():
            for each in decoded:
                fault_points.trigger(f"{self._handler.group}.reading.{each.key}")
        with traces.entered((each.envelope.event_id, each.headers.get(traces.HEADER)) for each in decoded):
            self._handler.handle(Batch(claim.cluster_id, claim.topic_id, claim.topic, claim.partition, decoded))

    def _handle_failure(self, claim: PartitionClaim, record: Any, start: int, fault: Exception) -> int:
        """A permanent failure is a dead letter at once; any other fault gets a few attempts."""
        place = (claim.topic, claim.partition)
        offset, failures = self._failures_in_a_row.get(place, (record.offset, 0))
        attempts = failures + 1 if offset == record.offset else 1
        self._failures_in_a_row[place] = (record.offset, attempts)
        reason = f"{type(fault).__name__}: {fault}"
        if not isinstance(fault, PermanentFailure) and attempts < ATTEMPTS_MAX:
            raise RetryLater(reason) from fault
        return self._commit_dead_letter(claim, record, start, reason, attempts)

    def _commit_dead_letter(self, claim: PartitionClaim, record: Any, start: int, reason: str, attempts: int) -> int:
        now = time.monotonic()
        if self._circuit.is_open(now):
            log.error("circuit open", extra={"group": claim.group, "reason": reason})
            raise RetryLater(f"the dead-letter circuit is open; the latest failure: {reason}")
        with transaction.atomic():
            dead_letters.record_dead_letter(claim, record, reason=reason, attempts=attempts)
            self._notify_handler(claim, record)
            offsets.advance(claim, start, record.offset + 1, record_fingerprint(record))
        self._circuit.note(now, dead=1)
        self._failures_in_a_row.pop((claim.topic, claim.partition), None)
        log.error(
            "dead letter",
            extra={"place": f"{claim.topic}-{claim.partition}@{record.offset}", "reason": reason},
        )
        return int(record.offset) + 1

    def _notify_handler(self, claim: PartitionClaim, record: Any) -> None:
        if not isinstance(self._handler, HandlesDeadLetters):
            return
        try:
            with transaction.atomic():
                batch = Batch(claim.cluster_id, claim.topic_id, claim.topic, claim.partition, [decode_record(record)])
                self._handler.on_dead_letter(batch)
        except PermanentFailure:
            pass  # the record is unreadable, so the handler has never processed it
        except TRANSIENT_FAULTS:
            raise
        except Exception:
            log.exception("handler failed to release what a dead letter held", extra={"group": claim.group})
