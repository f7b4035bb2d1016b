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
from typing import Any, NamedTuple

from django.db import close_old_connections
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from seckill.streams import client, cluster, offsets, switches
from seckill.streams.offsets import OutsideTheLog
from seckill.streams.ready import announce
from seckill.streams.records import Handler, Prefers, TakesMany
from seckill.streams.working import PASSING, Delivery, Worker

log = logging.getLogger(__name__)

MOST_RECORDS = 500
POLL_MS = 500
"""The broker answers as soon as there is something; this long it may take to hear that one is to stop."""
SESSION_MS = 6_000
"""After a death without goodbye its partitions rest for so long; a broker allows no less."""
METADATA_MS = 5_000
"""A leader that joined before it knew the topics assigns nothing, and looks again only when it hears of them."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0
LATER_EVERY = 5
"""Where one topic goes first, every fifth look is the others' alone: what stands there is worked off, too."""
FIRST_MS = 50
"""So long the broker keeps a question for that topic alone, which is empty as a rule; the others' waits meanwhile."""
SWITCH_S = 1.0
"""So often a consumer looks whether its group is switched off."""
BACK_S = 0.1
"""And so often whether it is on again: it has nothing else to do, and a group goes on together."""


class Pause(NamedTuple):
    """A partition that is left alone for a while; from then on it only says how long the last pause was."""

    until: float
    seconds: float


NOT_PAUSED = Pause(float("inf"), 0.0)


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
        self._ends: dict[TopicPartition, int] = {}  # at the claim
        self._pauses: dict[TopicPartition, Pause] = {}
        self._first = handler.first.name if isinstance(handler, Prefers) else ""
        self._most_records = handler.most_records if isinstance(handler, TakesMany) else MOST_RECORDS
        self._looks = 0
        self._held: set[TopicPartition] = set()  # while others have their turn
        self._new: set[TopicPartition] = set()
        self._is_off = False
        self._look_at_switch_at = 0.0
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
            max_poll_records=self._most_records,
            fetch_max_wait_ms=FIRST_MS if self._first else POLL_MS,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=SESSION_MS // 6,
            metadata_max_age_ms=METADATA_MS,
        )
        try:
            self._consumer.subscribe([topic.name for topic in self._handler.topics], listener=_Listener(self))
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
            for partition in [partition for partition, pause in self._pauses.items() if pause.until <= now]:
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
        client.unpark(self._consumer)
        client.request_unknown_topics(self._consumer)
        return self._consumer.poll(timeout_ms=patience_ms, max_records=self._most_records)

    def _patience_ms(self) -> float:
        """Not longer than until a partition that rests is to be tried again."""
        if self._is_off:
            return BACK_S * 1000
        first = min((pause.until for pause in self._pauses.values()), default=float("inf"))
        return max(0.0, min(POLL_MS, 1000 * (first - time.monotonic())))

    def _hold(self, partitions: set[TopicPartition]) -> None:
        changed, self._held = partitions ^ self._held, partitions
        for partition in changed & self._claims.keys():
            self._go_or_rest(partition)

    def _is_behind(self, partition: TopicPartition) -> bool:
        """As far as the last fetch told, or the claim; what rests for a fault has nothing to do."""
        end = self._consumer.highwater(partition) or self._ends[partition]
        return end > self._positions[partition] and not self._rests(partition)

    def _rests(self, partition: TopicPartition) -> bool:
        return self._is_off or self._pauses.get(partition, NOT_PAUSED).until != float("inf")

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
        """Claim what was assigned and go on where the rows say; an offset outside the log stops with an alarm."""
        try:
            partitions = sorted(self._new)
            starts = self._consumer.beginning_offsets(partitions)
            ends = self._consumer.end_offsets(partitions)
            for partition in partitions:
                self._claim(partition, starts[partition], ends[partition])
        except PASSING as fault:
            log.warning("claims wait", extra={"reason": str(fault)})
            close_old_connections()
            self._stopping.wait(FIRST_PAUSE_S)
        else:
            announce()

    def _claim(self, partition: TopicPartition, start: int, end: int) -> None:
        topic_id = self._cluster.topic_ids[partition.topic]
        claim = offsets.claim(
            self._cluster.id, topic_id, partition.topic, partition.partition, self._handler.group, start
        )
        if not start <= claim.next_offset <= end:
            raise OutsideTheLog(partition, claim.next_offset, start, end)
        if claim.deaths:
            log.warning("died here before", extra={"place": claim.place, "deaths": claim.deaths})
        self._new.discard(partition)
        self._claims[partition], self._ends[partition] = claim, end
        self._go_to(partition, claim.next_offset)
        self._go_or_rest(partition)
        self._commit(partition, claim.next_offset)  # the latest commit of the one before may have been lost

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        client.rejoin(self._consumer)
        self._let_go(partitions)

    def _let_go(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._new.discard(partition)
            self._claims.pop(partition, None)
            self._pauses.pop(partition, None)
            self._held.discard(partition)

    def _go_to(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset
        self._consumer.seek(partition, offset)

    # ── work ─────────────────────────────────────────────────────────────────────────────────────

    def _work(self, partition: TopicPartition, records: Sequence[Any]) -> None:
        claim = self._claims[partition]
        try:
            end = self._worker.work(claim, records, self._positions[partition])
        except offsets.Fenced as fenced:
            self._look_again(partition, fenced)
        except PASSING as fault:
            self._pause(partition, fault)
        else:
            self._positions[partition] = end
            self._pauses.pop(partition, None)
            self._commit(partition, end)

    def _commit(self, partition: TopicPartition, offset: int) -> None:
        """Copy a row's offset to the broker, for its tools."""
        self._consumer.commit_async({partition: OffsetAndMetadata(offset, "", -1)})

    def _look_again(self, partition: TopicPartition, why: Exception) -> None:
        """Go where the claim stands: a COMMIT whose answer was lost may have been one. If it is not ours any more,
        let go; whoever has it has claimed it."""
        try:
            at = offsets.position(self._claims[partition])
        except PASSING as fault:
            self._pause(partition, fault)
            return
        if at is None:
            log.warning("fenced", extra={"reason": str(why)})
            self._let_go([partition])
            self._consumer.pause(partition)
        else:
            self._go_to(partition, at)
            self._commit(partition, at)

    def _pause(self, partition: TopicPartition, fault: Exception) -> None:
        """Try this partition again later."""
        before = self._pauses.get(partition)
        seconds = FIRST_PAUSE_S if before is None else min(2 * before.seconds, LONGEST_PAUSE_S)
        log.warning("paused", extra={"partition": str(partition), "seconds": seconds, "reason": str(fault)})
        self._pauses[partition] = Pause(time.monotonic() + seconds, seconds)
        self._consumer.pause(partition)
        close_old_connections()
        try:
            offsets.give_up(self._claims[partition])  # we live: it did not kill us
        except PASSING:
            pass  # then the row says that we died, which costs a few slow batches

    def _resume(self, partition: TopicPartition) -> None:
        """From where the row says that it stands: part of the batch may have been done."""
        self._pauses[partition] = self._pauses[partition]._replace(until=float("inf"))
        self._look_again(partition, TimeoutError("claimed by another one during a pause"))
        if partition in self._claims:
            self._go_or_rest(partition)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # untyped there
    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:
        self._loop.revoked(revoked)

    def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        self._loop.assigned(assigned)
