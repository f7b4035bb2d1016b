"""Produce: append one batch to each partition in the request; answer when all of them are acknowledged.

Versions: 0 to 2 are advertised, because librdkafka needs that to accept the broker, but refused: their message formats
are older than batches. 9 is flexible, 13 has topic ids instead of names. Left out: transactional producers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from mqcore.apis.call import LATER, Api, Call, Later
from mqcore.apis.lookup import find_partition
from mqcore.apis.services import Services
from mqcore.identity import INTERNAL_TOPICS, Offset
from mqcore.partitions.partition import Partition
from mqcore.partitions.waiting_requests import ALL_REPLICAS, CommitOutcome, Committed, NotLeader, StorageFault
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.fast_primitives import Piece
from mqcore.wire.frames import BadFrame
from mqcore.wire.produce import (
    FIRST_SERVED,
    ProducedPartition,
    ProduceRequest,
    decode_produce,
    encode_produce_response,
)

API = Api(0, "Produce", 0, 13, first_served=FIRST_SERVED)

LACKS_REPLICAS = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "appended, but too few replicas are in sync"

decode = decode_produce

ProduceAnswer = list[tuple[str | None, UUID | None, list[ProducedPartition]]]


class Position(NamedTuple):
    """Where the result of a partition is in the answer."""

    topic: int
    partition: int


class PendingAppend(NamedTuple):
    partition: Partition
    end: Offset  # to be acknowledged
    position: Position


def encode(version: int, answer: ProduceAnswer) -> list[Piece]:
    return [encode_produce_response(version, answer)]


def handle(request: ProduceRequest, call: Call) -> ProduceAnswer | Later | None:
    services = call.services
    refusal = _refuse_request(request, call.version, services.free_space.is_disk_full)
    now_ms = services.clock.wall_ms()
    answer: ProduceAnswer = []
    pending: list[PendingAppend] = []
    has_refusals = False
    for topic_at, (name, topic_id, partitions) in enumerate(request.topics):
        results: list[ProducedPartition] = []
        for partition_at, (index, records) in enumerate(partitions):
            found = refusal or _find_writable_partition(services, name, topic_id, index, request.acks)
            if isinstance(found, Partition):
                appended = found.append(records, now_ms)
                if not isinstance(appended, Refusal):
                    base_offset, end, append_time_ms, _ = appended
                    results.append(ProducedPartition(index, 0, base_offset, append_time_ms, found.log.start_offset))
                    if end > found.high_watermark and not found.is_acknowledged(end, request.acks):
                        pending.append(PendingAppend(found, end, Position(topic_at, partition_at)))
                    continue
                found = appended
            has_refusals = True
            results.append(_refused_partition(index, found, services))
        answer.append((name, topic_id, results))
    if request.acks == 0:
        if has_refusals:
            call.hang_up()  # without a response, this is the only way to make the client refresh its metadata
        return None
    if pending:
        PendingProduce(call, answer, request.acks, request.timeout_ms).wait(pending)
        return LATER
    return answer


def _refuse_request(request: ProduceRequest, version: int, is_disk_full: bool) -> Refusal | None:
    """Why the whole request is refused, or None."""
    if version < FIRST_SERVED:
        return Refusal(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "message formats before v2 are not supported")
    if request.acks not in (-1, 0, 1):
        return Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, got {request.acks}")
    if request.transactional_id is not None:
        return Refusal(ErrorCode.INVALID_TXN_STATE, "transactions are not supported")
    for topic in request.topics:
        if not topic.partitions:
            raise BadFrame("a topic without partitions")
    if is_disk_full:
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
    return None


def _find_writable_partition(
    services: Services, name: str | None, topic_id: UUID | None, index: int, acks: int
) -> Partition | Refusal | ErrorCode:
    found = find_partition(services, name, topic_id, index)
    if isinstance(found, ErrorCode):
        return found
    if found.topic in INTERNAL_TOPICS:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "only the broker writes to this topic")
    if acks == ALL_REPLICAS and found.leads and not found.has_enough_replicas:
        return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "fewer replicas are in sync than min.insync.replicas")
    return found  # the append itself is refused on a broker that does not lead


def _refused_partition(index: int, why: Refusal | ErrorCode, services: Services) -> ProducedPartition:
    refusal = Refusal(why) if isinstance(why, ErrorCode) else why
    services.metrics.refused.cell(refusal.error.name).value += 1
    return ProducedPartition(index, refusal.error, error_message=refusal.message, record_errors=refusal.record_errors)


class PendingProduce:
    """An answer that waits until its batches are acknowledged, or until the client's timeout."""

    def __init__(self, call: Call, answer: ProduceAnswer, acks: int, timeout_ms: int) -> None:
        self._call = call
        self._answer = answer
        self._acks = acks
        self._waiting: dict[Position, Partition] = {}
        self._timer = call.services.clock.call_later(timeout_ms, self._on_timeout)

    def wait(self, appends: Sequence[PendingAppend]) -> None:
        """Answer when all `appends` are kept as `acks` demands, which may be before this returns."""
        self._waiting = {append.position: append.partition for append in appends}
        for partition, end, position in appends:
            partition.when_acknowledged(end, self._acks, partial(self._on_commit, position))

    def _on_commit(self, position: Position, outcome: CommitOutcome) -> None:
        partition = self._waiting.pop(position, None)
        if partition is None:
            return
        match outcome:
            case Committed():
                if self._lacks_replicas(partition):
                    self._set_error(position, *LACKS_REPLICAS)
            case NotLeader(reason):
                self._set_error(position, ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)
            case StorageFault(reason):
                self._set_error(position, ErrorCode.KAFKA_STORAGE_ERROR, reason)
        if not self._waiting:
            self._timer.cancel()
            self._call.answer(self._answer)

    def _on_timeout(self) -> None:
        for position, partition in self._waiting.items():
            if self._lacks_replicas(partition):
                self._set_error(position, *LACKS_REPLICAS)
            else:
                self._set_error(position, ErrorCode.REQUEST_TIMED_OUT, "appended, but not yet committed")
        self._waiting.clear()
        self._call.answer(self._answer)

    def _lacks_replicas(self, partition: Partition) -> bool:
        return self._acks == ALL_REPLICAS and not partition.has_enough_replicas

    def _set_error(self, position: Position, error: ErrorCode, message: str) -> None:
        results = self._answer[position.topic][2]
        index = results[position.partition].partition
        results[position.partition] = ProducedPartition(index, error, error_message=message)
