"""One batch of one partition: offsets under a fenced claim, effects and outbox in one transaction.

What fails passingly is raised, for the loop to try again later; what fails for good is found by halving the batch and
becomes a dead letter, in the same transaction as the offsets. What may have killed a process is tried one by one.
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

from seckill.streams import faults, letters, offsets, traces
from seckill.streams.circuit import Circuit
from seckill.streams.offsets import Claim
from seckill.streams.records import Batch, Buries, Handler, Permanent, identity, received

log = logging.getLogger(__name__)

MOST_TRIES = 3
MOST_DEATHS = 3


class TryAgain(Exception):
    """At fault, but not given up yet."""


PASSING = (
    OperationalError, InterfaceError, InternalError, RedisError, KafkaError, ConnectionError, TimeoutError, TryAgain,
)  # fmt: skip


class Delivery(Enum):
    """When the offsets advance. The services run exactly once; the others are there to see what they cost."""

    AT_MOST_ONCE = "at-most-once"  # before the effects: a death in between loses them
    AT_LEAST_ONCE = "at-least-once"  # after the effects: a death in between doubles them
    EXACTLY_ONCE = "exactly-once"  # with the effects


class Worker:
    def __init__(self, handler: Handler, delivery: Delivery = Delivery.EXACTLY_ONCE) -> None:
        self._handler = handler
        self._delivery = delivery
        self._circuit = Circuit()
        self._tries: dict[tuple[str, int], tuple[int, int]] = {}  # (topic, partition) → (offset, failures in a row)

    def work(self, claim: Claim, records: Sequence[Any], start: int) -> int:
        """All of the records, which follow `start`; where the partition stands now. Part of it may have been done
        when it raises: `offsets.position` tells."""
        if start == claim.next_offset and claim.deaths >= MOST_DEATHS:
            reason = f"the process died {claim.deaths} times at this record"
            start = self._bury(claim, records[0], start, reason, claim.deaths)
            records = records[1:]
        careful = sum(1 for record in records if record.offset < claim.careful_to)
        for record in records[:careful]:
            start = self._settle(claim, [record], start, alone=True)
        return self._settle(claim, records[careful:], start) if records[careful:] else start

    def _settle(self, claim: Claim, records: Sequence[Any], start: int, *, alone: bool = False) -> int:
        """One transaction; where a record is at fault for good, halves, down to the one that is."""
        end: int = records[-1].offset + 1
        faults.point(f"{self._handler.group}.before_batch")
        offsets.begin(claim, start, end, alone=alone)
        try:
            self._attempt(claim, records, start, end)
        except (*PASSING, offsets.Fenced):
            raise
        except Exception as fault:
            if len(records) == 1:
                return self._give_up(claim, records[0], start, fault)
            middle = len(records) // 2
            return self._settle(claim, records[middle:], self._settle(claim, records[:middle], start))
        self._tries.pop((claim.topic, claim.partition), None)
        self._circuit.note(time.monotonic(), good=len(records))
        return end

    def _attempt(self, claim: Claim, records: Sequence[Any], start: int, end: int) -> None:
        last = identity(records[-1])
        if self._delivery is Delivery.AT_MOST_ONCE:
            with transaction.atomic():
                offsets.advance(claim, start, end, last)
            faults.point(f"{self._handler.group}.between")
        with transaction.atomic():
            self._handle(claim, records)
            if self._delivery is Delivery.EXACTLY_ONCE:
                offsets.advance(claim, start, end, last)
            faults.point(f"{self._handler.group}.before_commit")
        if self._delivery is Delivery.AT_LEAST_ONCE:
            faults.point(f"{self._handler.group}.between")
            with transaction.atomic():
                offsets.advance(claim, start, end, last)
        faults.point(f"{self._handler.group}.after_commit")

    def _handle(self, claim: Claim, records: Sequence[Any]) -> None:
        listed = [received(record) for record in records]
        if faults.are_on():
            for each in listed:
                faults.point(f"{self._handler.group}.reading.{each.key}")
        with traces.entered((each.envelope.event_id, each.headers.get(traces.HEADER)) for each in listed):
            self._handler.handle(Batch(claim.cluster_id, claim.topic_id, claim.topic, claim.partition, listed))

    def _give_up(self, claim: Claim, record: Any, start: int, fault: Exception) -> int:
        """Dead at once if it says so; what nobody foresaw gets a few tries."""
        place = (claim.topic, claim.partition)
        offset, failures = self._tries.get(place, (record.offset, 0))
        tries = failures + 1 if offset == record.offset else 1
        self._tries[place] = (record.offset, tries)
        reason = f"{type(fault).__name__}: {fault}"
        if not isinstance(fault, Permanent) and tries < MOST_TRIES:
            raise TryAgain(reason) from fault
        return self._bury(claim, record, start, reason, tries)

    def _bury(self, claim: Claim, record: Any, start: int, reason: str, attempts: int) -> int:
        now = time.monotonic()
        if self._circuit.is_open(now):
            log.error("circuit open", extra={"group": claim.group, "reason": reason})
            raise TryAgain(f"too many dead letters; the latest: {reason}")
        with transaction.atomic():
            letters.bury(claim, record, reason=reason, attempts=attempts)
            self._tell_handler(claim, record)
            offsets.advance(claim, start, record.offset + 1, identity(record))
        self._circuit.note(now, dead=1)
        self._tries.pop((claim.topic, claim.partition), None)
        log.error(
            "dead letter",
            extra={"place": f"{claim.topic}-{claim.partition}@{record.offset}", "reason": reason},
        )
        return int(record.offset) + 1

    def _tell_handler(self, claim: Claim, record: Any) -> None:
        if not isinstance(self._handler, Buries):
            return
        try:
            with transaction.atomic():
                batch = Batch(claim.cluster_id, claim.topic_id, claim.topic, claim.partition, [received(record)])
                self._handler.bury(batch)
        except Permanent:
            pass  # the handler never saw it
        except PASSING:
            raise
        except Exception:
            log.exception("a handler could not give back what a dead letter held", extra={"group": claim.group})
