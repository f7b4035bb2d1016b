"""Produce: append one batch to each named partition; answer when they are committed."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from mqcore.apis.call import LATER, Api, Call, Later
from mqcore.apis.lookup import find_partition
from mqcore.controller.image import INTERNAL_TOPICS
from mqcore.identity import Offset
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.frames import BadFrame
from mqcore.wire.hot import Piece
from mqcore.wire.produce import (
    FIRST_SERVED,
    ProducedPartition,
    ProduceRequest,
    decode_produce,
    encode_produce_response,
)

API = Api(0, "Produce", 0, 13, first_served=FIRST_SERVED)

IN_SYNC_REPLICAS = 1  # of every partition: a cluster of one

decode = decode_produce

Pending = tuple[Partition, Offset, int, int]
"""A partition, the end to be committed, and where its answer stands: topic, partition."""

Answer = list[tuple[str | None, UUID | None, list[ProducedPartition]]]


def encode(version: int, answer: Answer) -> list[Piece]:
    return [encode_produce_response(version, answer)]


def handle(request: ProduceRequest, call: Call) -> Answer | Later | None:
    services = call.services
    refusal = _refuse_all(request, call.version, services.partitions.disk_is_full)
    now_ms = services.clock.wall_ms()
    answer: Answer = []
    pending: list[Pending] = []
    refused = False
    for topic_at, (name, topic_id, partitions) in enumerate(request.topics):
        results: list[ProducedPartition] = []
        for at, (index, records) in enumerate(partitions):
            found = find_partition(services, name, topic_id, index) if refusal is None else refusal
            if isinstance(found, Partition) and found.topic in INTERNAL_TOPICS:
                found = Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "only the broker writes to this topic")
            if isinstance(found, Partition) and request.acks == -1 and found.min_insync_replicas > IN_SYNC_REPLICAS:
                found = Refusal(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"{IN_SYNC_REPLICAS} replica is in sync, min.insync.replicas is {found.min_insync_replicas}",
                )
            if isinstance(found, Partition):
                appended = found.append(records, now_ms)
                if not isinstance(appended, Refusal):
                    base_offset, end, append_time_ms, _ = appended
                    results.append(ProducedPartition(index, 0, base_offset, append_time_ms, found.log.start_offset))
                    if found.high_watermark < end:
                        pending.append((found, end, topic_at, at))
                    continue
                found = appended
            refused = True
            results.append(_refused(index, found, services.metrics.refused))
        answer.append((name, topic_id, results))
    if request.acks == 0:
        if refused:
            call.hang_up()  # the only way to tell such a client that its metadata may be old
        return None
    if pending:
        _Commit(call, answer, pending, request.timeout_ms)
        return LATER
    return answer


def _refuse_all(request: ProduceRequest, version: int, disk_is_full: bool) -> Refusal | None:
    if version < FIRST_SERVED:
        return Refusal(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "message formats before v2 are not kept")
    if request.acks not in (-1, 0, 1):
        return Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}")
    if request.transactional_id is not None:
        return Refusal(ErrorCode.INVALID_TXN_STATE, "transactions are not served yet")
    if request.topics and not request.topics[0].partitions:
        raise BadFrame("a topic without partitions")
    if disk_is_full:
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
    return None


def _refused(index: int, why: Refusal | ErrorCode, refusals: Any) -> ProducedPartition:
    refusal = Refusal(why) if isinstance(why, ErrorCode) else why
    refusals.cell(refusal.error.name).value += 1
    return ProducedPartition(index, refusal.error, error_message=refusal.message, record_errors=refusal.record_errors)


class _Commit:
    """An answer that waits for the high watermarks, but no longer than the client does."""

    def __init__(self, call: Call, answer: Answer, pending: list[Pending], timeout_ms: int) -> None:
        self._call = call
        self._answer = answer
        self._open = {(topic_at, at) for _, _, topic_at, at in pending}
        self._timer = call.services.clock.call_later(timeout_ms, self._timed_out)
        for partition, end, topic_at, at in pending:
            partition.when_committed(end, partial(self._settle, (topic_at, at)))

    def _settle(self, place: tuple[int, int], fault: Exception | None) -> None:
        if place not in self._open:
            return
        self._open.discard(place)
        if fault is not None:
            self._fail(place, ErrorCode.KAFKA_STORAGE_ERROR, str(fault))
        if not self._open:
            self._timer.cancel()
            self._call.answer(self._answer)

    def _timed_out(self) -> None:
        for place in self._open:
            self._fail(place, ErrorCode.REQUEST_TIMED_OUT, "appended, but not yet committed")
        self._open.clear()
        self._call.answer(self._answer)

    def _fail(self, place: tuple[int, int], error: ErrorCode, message: str) -> None:
        results = self._answer[place[0]][2]
        results[place[1]] = ProducedPartition(results[place[1]].partition, error, error_message=message)
