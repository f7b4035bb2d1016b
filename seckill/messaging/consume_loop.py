"""Shell: the consume loop: records of topics → handlers, exactly once in effect.

One batch of one partition is one transaction (seckill/messaging/batch_worker.py). Afterwards the loop also commits the
offsets to the broker, so that Kafka's tools can show them. A partition whose batch fails with a transient fault is
paused and retried later; the loop keeps polling, because otherwise the group would consider this consumer dead. The
client calls the rebalance listener only inside `poll`, so no partition is revoked in the middle of a batch.
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

from seckill.messaging import kafka_client, kafka_cluster, offsets, partition_claims
from seckill.messaging.batch_worker import TRANSIENT_FAULTS, BatchWorker, DeliveryGuarantee
from seckill.messaging.broker_wait import wait_for_broker
from seckill.messaging.group_switches import CHECK_SECONDS_WHILE_OFF, SwitchWatch
from seckill.messaging.log_continuity import LogContinuity
from seckill.messaging.offsets import LogReplaced, OffsetOutsideLog
from seckill.messaging.partition_backoff import PAUSE_SECONDS_MAX, PartitionBackoff
from seckill.messaging.ready_file import mark_ready
from seckill.messaging.records import Handler, PrioritizesTopic, TakesLargeBatches

log = logging.getLogger(__name__)

RECORDS_MAX = 500
POLL_MS_MAX = 500  # also bounds how long `stop` takes; the broker answers earlier if there are records
SESSION_TIMEOUT_MS = 6_000  # how long the partitions of a killed consumer rest; brokers allow no less by default
OTHERS_ONLY_EVERY_POLLS = 5  # with a priority topic, every fifth poll reads only the others, so that none starves
PRIORITY_POLL_MS_MAX = 50  # the broker's wait when only the priority topic is read, which is usually empty


class ConsumeLoop:
    def __init__(
        self,
        handler: Handler,
        bootstrap_servers: str,
        client_id: str,
        delivery: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
    ) -> None:
        self._handler = handler
        self._worker = BatchWorker(handler, delivery)
        self._bootstrap = bootstrap_servers
        self._client_id = client_id
        self._claims: dict[TopicPartition, offsets.PartitionClaim] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._logs: dict[TopicPartition, partition_claims.LogBounds] = {}  # as they were when claimed
        self._continuity = LogContinuity()
        self._backoff = PartitionBackoff()  # of claimed partitions
        self._priority_topic = handler.priority_topic.name if isinstance(handler, PrioritizesTopic) else ""
        self._batch_records_max = handler.batch_records_max if isinstance(handler, TakesLargeBatches) else RECORDS_MAX
        self._polls_with_priority = 0
        self._yielding: set[TopicPartition] = set()  # paused while other partitions have their turn
        self._unclaimed: set[TopicPartition] = set()  # assigned, not yet claimed
        self._claim_backoff = PartitionBackoff()  # of unclaimed partitions whose log or row was unavailable
        self._switch = SwitchWatch(handler.group)  # while it is off, all partitions are paused and only polling goes on
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Finish the batch under way, leave the group, return. Safe in a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        cluster = wait_for_broker(
            lambda: kafka_cluster.describe_cluster(self._bootstrap, self._handler.topics), self._stopping
        )
        if cluster is None:
            return
        self._cluster = cluster
        self._consumer = kafka_client.create_consumer(
            self._bootstrap, self._client_id, self._handler.group, batch_records_max=self._batch_records_max,
            fetch_wait_ms=PRIORITY_POLL_MS_MAX if self._priority_topic else POLL_MS_MAX,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )  # fmt: skip
        try:
            self._consumer.subscribe(
                [topic.name for topic in self._handler.topics],
                listener=kafka_client.AssignmentListener(self._on_assigned, self._on_revoked),
            )
            while not self._stopping.is_set():
                self._run_once()
        finally:
            self._consumer.close(autocommit=False)

    def _run_once(self) -> None:
        polled = self._poll()
        if self._unclaimed:
            self._claim_assigned()
        for partition, records in polled.items():
            if partition in self._claims and not self._stopping.is_set():
                self._process(partition, records)
        now = time.monotonic()
        if self._switch.has_changed(now):
            for partition in self._claims:
                self._pause_or_resume(partition)
        if not self._switch.is_off:
            for partition in self._backoff.expired(now):
                self._end_backoff(partition)

    # ── polling ──────────────────────────────────────────────────────────────────────────────────

    def _poll(self) -> Any:
        """With a priority topic and a backlog in the others, the priority topic is polled alone before the others.
        The client keeps the fetched records of paused partitions."""
        others = {partition for partition in self._claims if partition.topic != self._priority_topic}
        if not self._priority_topic or not any(map(self._has_backlog, others)):
            self._yield_turn(set())
        else:
            self._polls_with_priority += 1
            if self._polls_with_priority % OTHERS_ONLY_EVERY_POLLS:
                self._yield_turn(others)
                polled = self._poll_records(0.0)
                if polled:
                    return polled
                self._yield_turn(set())
            else:
                self._yield_turn(self._claims.keys() - others)
        return self._poll_records(self._poll_ms())

    def _poll_records(self, timeout_ms: float) -> Any:
        polled = kafka_client.poll_records(self._consumer, timeout_ms, self._batch_records_max)
        for partition in polled.lost & self._claims.keys():
            log.warning("claiming again", extra={"partition": str(partition), "reason": "its log has changed"})
            self._release_for_claim(partition, 0.0)
        return polled.records

    def _poll_ms(self) -> float:
        """Until the next paused partition is due, or `POLL_MS_MAX`."""
        if self._switch.is_off:
            return CHECK_SECONDS_WHILE_OFF * 1000
        due_at = min(self._backoff.next_at, self._claim_backoff.next_at)
        return max(0.0, min(POLL_MS_MAX, 1000 * (due_at - time.monotonic())))

    def _yield_turn(self, partitions: set[TopicPartition]) -> None:
        changed, self._yielding = partitions ^ self._yielding, partitions
        for partition in changed & self._claims.keys():
            self._pause_or_resume(partition)

    def _has_backlog(self, partition: TopicPartition) -> bool:
        """By the latest fetch, or else by the claim. A paused partition counts as having none."""
        end = self._consumer.highwater(partition) or self._logs[partition].end
        return end > self._positions[partition] and not self._must_rest(partition)

    def _must_rest(self, partition: TopicPartition) -> bool:
        return self._switch.is_off or self._backoff.is_paused(partition)

    def _pause_or_resume(self, partition: TopicPartition) -> None:
        """The one place that applies all reasons for a pause to the client."""
        if partition in self._yielding or self._must_rest(partition):
            self._consumer.pause(partition)
        else:
            self._consumer.resume(partition)

    # ── assignment ───────────────────────────────────────────────────────────────────────────────

    def _on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Runs inside `poll`, where blocking is forbidden, so it only pauses the partitions until they are claimed."""
        for partition in partitions:
            self._consumer.seek(partition, 0)  # any position stops the client from asking the broker for one
            self._consumer.pause(partition)
        self._unclaimed.update(partitions)

    def _claim_assigned(self) -> None:
        """Claim each assigned partition on its own, so that one fault delays one partition."""
        now = time.monotonic()
        for partition in self._claim_backoff.expired(now):
            self._claim_backoff.end_pause(partition)
        wanted = sorted(partition for partition in self._unclaimed if not self._claim_backoff.is_paused(partition))
        if not wanted:
            return
        logs, failures = partition_claims.read_log_bounds(self._consumer, wanted), 0
        for partition in wanted:
            try:
                if partition not in logs:
                    raise TimeoutError("its log does not answer")
                self._claim(partition, logs[partition])
            except OffsetOutsideLog as outside:
                self._halt(partition, outside)
            except TRANSIENT_FAULTS as fault:
                failures += 1
                close_old_connections()
                self._claim_backoff.start_pause(partition, now)
                log.warning("claim delayed", extra={"partition": str(partition), "reason": str(fault)})
        if failures < len(wanted):
            mark_ready()

    def _claim(self, partition: TopicPartition, bounds: partition_claims.LogBounds) -> None:
        claim = partition_claims.claim_within_log(self._cluster, self._handler.group, partition, bounds)
        if claim.crash_count:
            log.warning("crashed here before", extra={"place": claim.place, "crash_count": claim.crash_count})
        self._unclaimed.discard(partition)
        self._claims[partition], self._logs[partition] = claim, bounds
        self._seek(partition, claim.next_offset, claim.last_record)
        self._pause_or_resume(partition)
        self._commit(partition, claim.next_offset)  # the predecessor's latest commit may have been lost

    def _halt(self, partition: TopicPartition, why: OffsetOutsideLog) -> None:
        """Stop this partition only. It is claimed again from time to time, because an operator may resume it."""
        log.error("halted: see `seckill offsets`", extra={"group": self._handler.group, "reason": str(why)})
        try:
            if partition in self._claims:
                offsets.mark_halted(self._claims[partition], str(why))
        except TRANSIENT_FAULTS:
            pass  # the next claim finds the same and marks it
        self._release_for_claim(partition, PAUSE_SECONDS_MAX)

    def _release_for_claim(self, partition: TopicPartition, seconds: float) -> None:
        self._forget([partition])
        self._consumer.pause(partition)
        self._unclaimed.add(partition)
        self._claim_backoff.start_pause(partition, time.monotonic(), seconds)

    def _on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        kafka_client.request_rejoin(self._consumer)
        self._forget(partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._unclaimed.discard(partition)
            self._claims.pop(partition, None)
            for each in (self._backoff, self._claim_backoff, self._continuity):
                each.forget(partition)
            self._yielding.discard(partition)

    def _seek(self, partition: TopicPartition, offset: int, last_record: str) -> None:
        """Continue at this offset. The record before it is fetched first, if the log still has it, to recognise the
        log."""
        self._positions[partition] = offset
        has_previous = bool(last_record) and offset > self._logs[partition].start
        self._continuity.expect(partition, last_record if has_previous else "")
        self._consumer.seek(partition, offset - 1 if has_previous else offset)

    # ── processing ───────────────────────────────────────────────────────────────────────────────

    def _process(self, partition: TopicPartition, records: Sequence[Any]) -> None:
        claim, position = self._claims[partition], self._positions[partition]
        try:
            good, has_new_epoch = self._continuity.check(partition, position, records)
            end = self._worker.process(claim, good, position) if good else position
        except LogReplaced as replaced:
            self._halt(partition, replaced)
        except offsets.ClaimFenced as fenced:
            self._reload_position(partition, fenced)
        except TRANSIENT_FAULTS as fault:
            self._back_off(partition, fault)
        else:
            self._positions[partition] = end
            self._backoff.forget(partition)
            if good:
                self._commit(partition, end)
            if has_new_epoch:
                self._reload_position(partition, TimeoutError("claimed by another consumer while the leader changed"))

    def _commit(self, partition: TopicPartition, offset: int) -> None:
        """Copy a row's offset to the broker, for its tools."""
        self._consumer.commit_async({partition: OffsetAndMetadata(offset, "", -1)})

    def _reload_position(self, partition: TopicPartition, why: Exception) -> None:
        """Continue at the row's offset, because a COMMIT whose answer was lost may have succeeded. If another consumer
        has claimed the row, let the partition go."""
        try:
            found = offsets.current_position(self._claims[partition])
        except TRANSIENT_FAULTS as fault:
            self._back_off(partition, fault)
            return
        if found is None:
            log.warning("fenced", extra={"reason": str(why)})
            self._forget([partition])
            self._consumer.pause(partition)
        else:
            self._seek(partition, *found)
            self._commit(partition, found[0])

    def _back_off(self, partition: TopicPartition, fault: Exception) -> None:
        seconds = self._backoff.start_pause(partition, time.monotonic())
        log.warning("paused", extra={"partition": str(partition), "seconds": seconds, "reason": str(fault)})
        self._consumer.pause(partition)
        close_old_connections()
        try:
            offsets.clear_attempt(self._claims[partition])  # the batch failed, but it did not kill this process
        except TRANSIENT_FAULTS:
            pass  # the row then counts a crash, which costs a few batches of one record

    def _end_backoff(self, partition: TopicPartition) -> None:
        """Continue at the row's offset: parts of the batch may have been committed."""
        self._backoff.end_pause(partition)
        self._reload_position(partition, TimeoutError("claimed by another consumer during a pause"))
        if partition in self._claims:
            self._pause_or_resume(partition)
