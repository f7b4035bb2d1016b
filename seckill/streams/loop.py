"""Shell: the consume loop: records of topics → handlers, exactly once in effect.

One batch of one partition is one transaction (seckill/streams/working.py). Then the offsets are committed to the
broker, too, for tools to see. A partition whose work fails passingly is left alone for a while and tried again; the
others go on, and the polling goes on, or the group would take us for dead. The client calls the listener only while
we wait in `poll`, so a partition is never taken away in the middle of a batch.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from django.db import close_old_connections
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from seckill.streams import claiming, client, cluster, offsets, switches
from seckill.streams.claiming import Bounds
from seckill.streams.continuity import Continuity
from seckill.streams.offsets import OtherLog, OutsideTheLog
from seckill.streams.pauses import LONGEST_PAUSE_S, Pauses
from seckill.streams.ready import announce
from seckill.streams.records import Handler, Prefers, TakesMany
from seckill.streams.working import PASSING, Delivery, Worker

log = logging.getLogger(__name__)

MOST_RECORDS = 500
POLL_MS = 500  # the broker answers as soon as there is something; so long it may take to hear that one is to stop
SESSION_MS = 6_000  # after a death without goodbye its partitions rest for so long; a broker allows no less
LATER_EVERY = 5  # where one topic goes first, every fifth look is the others' alone, so that they are worked off, too
FIRST_MS = 50  # so long the broker keeps a question for that topic alone, which is empty as a rule
SWITCH_S = 1.0  # how often a consumer looks whether its group is switched off
BACK_S = 0.1
"""And so often whether it is on again: it has nothing else to do, and a group goes on together."""


class Loop:
    def __init__(
        self, handler: Handler, bootstrap_servers: str, client_id: str, delivery: Delivery = Delivery.EXACTLY_ONCE
    ) -> None:
        self._handler = handler
        self._worker = Worker(handler, delivery)
        self._bootstrap = bootstrap_servers
        self._client_id = client_id
        self._claims: dict[TopicPartition, offsets.Claim] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._logs: dict[TopicPartition, Bounds] = {}  # at the claim
        self._continuity = Continuity()
        self._pauses = Pauses()  # of what is claimed
        self._first = handler.first.name if isinstance(handler, Prefers) else ""
        self._most_records = handler.most_records if isinstance(handler, TakesMany) else MOST_RECORDS
        self._looks = 0
        self._held: set[TopicPartition] = set()  # while others have their turn
        self._new: set[TopicPartition] = set()  # assigned, and to be claimed
        self._waits = Pauses()  # of these: their log or row could not be had
        self._is_off = False
        self._look_at_switch_at = 0.0
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Finish the batch under way, leave the group, return. Safe in a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        self._cluster = cluster.describe(self._bootstrap, self._handler.topics)
        self._consumer = client.join(
            self._bootstrap, self._client_id, self._handler.group, most_records=self._most_records,
            patience_ms=FIRST_MS if self._first else POLL_MS, session_ms=SESSION_MS,
        )  # fmt: skip
        try:
            self._consumer.subscribe(
                [topic.name for topic in self._handler.topics], listener=client.Listener(self.assigned, self.revoked)
            )
            while not self._stopping.is_set():
                self._turn()
        finally:
            self._consumer.close(autocommit=False)

    def _turn(self) -> None:
        polled = self._poll()
        if self._new:
            self._claim_new()
        for partition, records in polled.items():
            if partition in self._claims and not self._stopping.is_set():
                self._work(partition, records)
        now = time.monotonic()
        if now >= self._look_at_switch_at:
            self._look_at_switch()
            self._look_at_switch_at = now + (BACK_S if self._is_off else SWITCH_S)
        if not self._is_off:
            for partition in self._pauses.due(now):
                self._resume(partition)

    def _look_at_switch(self) -> None:
        """Off: everything we have is held still, and we poll on; on: it goes on where it stands."""
        try:
            is_off = switches.is_off(self._handler.group)
        except PASSING:
            close_old_connections()
            return  # as it was
        if is_off != self._is_off:
            log.warning("switched", extra={"group": self._handler.group, "to": "off" if is_off else "on"})
            self._is_off = is_off
            for partition in self._claims:
                self._go_or_rest(partition)

    def _poll(self) -> Any:
        """Where one topic goes first and there is a backlog in the others, it is looked at before each look at them.
        What is fetched and held still is kept by the client."""
        later = {partition for partition in self._claims if partition.topic != self._first}
        if not self._first or not any(map(self._is_behind, later)):
            self._hold(set())
        else:
            self._looks += 1
            if self._looks % LATER_EVERY:
                self._hold(later)
                polled = self._look(0.0)
                if polled:
                    return polled
                self._hold(set())
            else:
                self._hold(self._claims.keys() - later)
        return self._look(self._patience_ms())

    def _look(self, patience_ms: float) -> Any:
        polled = client.poll(self._consumer, patience_ms, self._most_records)
        for partition in polled.lost & self._claims.keys():
            log.warning("claimed once more", extra={"partition": str(partition), "reason": "its log has changed"})
            self._set_aside(partition, 0.0)
        return polled.records

    def _patience_ms(self) -> float:
        """Not longer than until a partition that rests is to be tried again."""
        if self._is_off:
            return BACK_S * 1000
        first = min(self._pauses.next_at, self._waits.next_at)
        return max(0.0, min(POLL_MS, 1000 * (first - time.monotonic())))

    def _hold(self, partitions: set[TopicPartition]) -> None:
        changed, self._held = partitions ^ self._held, partitions
        for partition in changed & self._claims.keys():
            self._go_or_rest(partition)

    def _is_behind(self, partition: TopicPartition) -> bool:
        """As far as the last fetch told, or the claim; what rests for a fault has nothing to do."""
        end = self._consumer.highwater(partition) or self._logs[partition].end
        return end > self._positions[partition] and not self._rests(partition)

    def _rests(self, partition: TopicPartition) -> bool:
        return self._is_off or self._pauses.rests(partition)

    def _go_or_rest(self, partition: TopicPartition) -> None:
        """Whoever has a reason to hold a partition still has told us; here it is done."""
        if partition in self._held or self._rests(partition):
            self._consumer.pause(partition)
        else:
            self._consumer.resume(partition)

    # ── assignment ───────────────────────────────────────────────────────────────────────────────

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """On the client's own thread, where nothing may block: hold the partitions still until they are claimed."""
        for partition in partitions:
            self._consumer.seek(partition, 0)  # a position of some sort, or the client would go and ask for one
            self._consumer.pause(partition)
        self._new.update(partitions)

    def _claim_new(self) -> None:
        """Claim what was assigned and go on where the rows say, each partition for itself."""
        now = time.monotonic()
        for partition in self._waits.due(now):
            self._waits.end(partition)
        wanted = sorted(partition for partition in self._new if not self._waits.rests(partition))
        if not wanted:
            return
        logs, waiting = claiming.bounds(self._consumer, wanted), len(wanted)
        for partition in wanted:
            try:
                if partition not in logs:
                    raise TimeoutError("its log does not answer")
                self._claim(partition, logs[partition])
                waiting -= 1
            except OutsideTheLog as outside:
                self._halt(partition, outside)
                waiting -= 1
            except PASSING as fault:
                close_old_connections()
                self._waits.begin(partition, now)
                log.warning("claim waits", extra={"partition": str(partition), "reason": str(fault)})
        if waiting < len(wanted):
            announce()

    def _claim(self, partition: TopicPartition, bounds: Bounds) -> None:
        claim = claiming.claim(self._cluster, self._handler.group, partition, bounds)
        if claim.deaths:
            log.warning("died here before", extra={"place": claim.place, "deaths": claim.deaths})
        self._new.discard(partition)
        self._claims[partition], self._logs[partition] = claim, bounds
        self._go_to(partition, claim.next_offset, claim.last_record)
        self._go_or_rest(partition)
        self._commit(partition, claim.next_offset)  # the latest commit of the one before may have been lost

    def _halt(self, partition: TopicPartition, why: OutsideTheLog) -> None:
        """The others go on. It is claimed again now and then: an operator may have said how to go on."""
        log.error("halted: see `seckill offsets`", extra={"group": self._handler.group, "reason": str(why)})
        try:
            if partition in self._claims:
                offsets.halt(self._claims[partition], str(why))
        except PASSING:
            pass  # it is found again when it is claimed next
        self._set_aside(partition, LONGEST_PAUSE_S)

    def _set_aside(self, partition: TopicPartition, seconds: float) -> None:
        self._let_go([partition])
        self._consumer.pause(partition)
        self._new.add(partition)
        self._waits.begin(partition, time.monotonic(), seconds)

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        client.rejoin(self._consumer)
        self._let_go(partitions)

    def _let_go(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._new.discard(partition)
            self._claims.pop(partition, None)
            for each in (self._pauses, self._waits, self._continuity):
                each.forget(partition)
            self._held.discard(partition)

    def _go_to(self, partition: TopicPartition, offset: int, last_record: str) -> None:
        """Go on there. First comes the record before it, if it is still in the log, to be recognised."""
        self._positions[partition] = offset
        is_there = bool(last_record) and offset > self._logs[partition].start
        self._continuity.enter(partition, last_record if is_there else "")
        self._consumer.seek(partition, offset - 1 if is_there else offset)

    # ── work ─────────────────────────────────────────────────────────────────────────────────────

    def _work(self, partition: TopicPartition, records: Sequence[Any]) -> None:
        claim, position = self._claims[partition], self._positions[partition]
        try:
            good, enter_again = self._continuity.follow(partition, position, records)
            end = self._worker.work(claim, good, position) if good else position
        except OtherLog as other:
            self._halt(partition, other)
        except offsets.Fenced as fenced:
            self._look_again(partition, fenced)
        except PASSING as fault:
            self._pause(partition, fault)
        else:
            self._positions[partition] = end
            self._pauses.forget(partition)
            if good:
                self._commit(partition, end)
            if enter_again:
                self._look_again(partition, TimeoutError("claimed while its leader changed"))

    def _commit(self, partition: TopicPartition, offset: int) -> None:
        """Copy a row's offset to the broker, for its tools."""
        self._consumer.commit_async({partition: OffsetAndMetadata(offset, "", -1)})

    def _look_again(self, partition: TopicPartition, why: Exception) -> None:
        """Go where the claim stands: a COMMIT whose answer was lost may have been one. If it is not ours any more,
        let go; whoever has it has claimed it."""
        try:
            at = offsets.standing(self._claims[partition])
        except PASSING as fault:
            self._pause(partition, fault)
            return
        if at is None:
            log.warning("fenced", extra={"reason": str(why)})
            self._let_go([partition])
            self._consumer.pause(partition)
        else:
            self._go_to(partition, *at)
            self._commit(partition, at[0])

    def _pause(self, partition: TopicPartition, fault: Exception) -> None:
        """Try this partition again later."""
        seconds = self._pauses.begin(partition, time.monotonic())
        log.warning("paused", extra={"partition": str(partition), "seconds": seconds, "reason": str(fault)})
        self._consumer.pause(partition)
        close_old_connections()
        try:
            offsets.give_up(self._claims[partition])  # we live: it did not kill us
        except PASSING:
            pass  # then the row says that we died, which costs a few slow batches

    def _resume(self, partition: TopicPartition) -> None:
        """From where the row says that it stands: part of the batch may have been done."""
        self._pauses.end(partition)
        self._look_again(partition, TimeoutError("claimed by another one during a pause"))
        if partition in self._claims:
            self._go_or_rest(partition)
