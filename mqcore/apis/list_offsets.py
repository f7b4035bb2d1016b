"""Shell: ListOffsets: the offset at a time, or at one of the special times below zero."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Generator
from typing import Any

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.lookup import find_partition
from mqcore.clock import Clock
from mqcore.log.errors import CorruptLog, LogFailed
from mqcore.log.times import search_max_timestamp, search_time
from mqcore.partitions.partition import Partition
from mqcore.wire.batches import BadBatch
from mqcore.wire.errors import ErrorCode

API = Api(2, "ListOffsets", 1, 11)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
READ_COMMITTED = 1

FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

TURN_MS = 5
LEAST_STEPS = 4  # a short search is answered at once


def handle(request: Any, call: Call) -> Response | Later:
    """A search by time may read much: it yields to other connections every few milliseconds."""
    answering = _answers(request, call)
    response = _run(answering, call.services.clock)
    if response is not None:
        return response
    _go_on_later(answering, call)
    return LATER


def _run(answering: Generator[None, None, Response], clock: Clock) -> Response | None:
    """One turn; the response if it is complete."""
    end_ms = clock.now().monotonic_ms + TURN_MS
    try:
        for step in itertools.count():
            next(answering)
            if step >= LEAST_STEPS and clock.now().monotonic_ms >= end_ms:
                return None
        raise AssertionError("a count does not end")
    except StopIteration as finished:
        response: Response = finished.value
        return response


def _go_on_later(answering: Generator[None, None, Response], call: Call) -> None:
    def go_on() -> None:
        try:
            response = _run(answering, call.services.clock)
        except Exception:
            call.hang_up()  # as for every request that fails
            call.answer(None)
            raise
        if response is None:
            _go_on_later(answering, call)
        else:
            call.when_gone = None
            call.answer(response)

    timer = call.services.clock.call_soon(go_on)
    call.when_gone = timer.cancel


def _answers(request: Any, call: Call) -> Generator[None, None, Response]:
    committed_only = request.isolation_level == READ_COMMITTED
    asked = Counter((topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions)
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            if asked[topic.name, wanted.partition_index] > 1:  # each search may decompress a batch
                answer: Response = {"error_code": ErrorCode.INVALID_REQUEST}
            else:
                answer = yield from _answer(call, topic.name, wanted, committed_only)
            partitions.append({"partition_index": wanted.partition_index, **answer})
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}


def _answer(call: Call, topic: str, wanted: Any, committed_only: bool) -> Generator[None, None, Response]:
    partition = find_partition(call.services, topic, None, wanted.partition_index)
    if isinstance(partition, ErrorCode):
        return {"error_code": partition}
    if partition.offline is not None:
        return {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}
    refusal = partition.check_epoch(wanted.current_leader_epoch)
    if refusal is not None:
        return {"error_code": refusal.error}
    if call.version < FIRST_VERSION_OF.get(wanted.timestamp, 0):
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION}
    try:
        timestamp, offset, epoch = yield from _find(partition, wanted.timestamp, committed_only)
    except (LogFailed, CorruptLog) as fault:
        partition.go_offline(str(fault))
        return {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}
    except (OSError, BadBatch):
        return {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}
    return {"timestamp": timestamp, "offset": offset, "leader_epoch": epoch}


def _find(partition: Partition, timestamp: int, committed_only: bool) -> Generator[None, None, tuple[int, int, int]]:
    """(timestamp, offset, leader epoch); −1 for what there is not."""
    limit = partition.last_stable_offset if committed_only else partition.high_watermark
    log = partition.log
    if timestamp == LATEST:
        return -1, limit, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start_offset, log.epochs.epoch_at(log.start_offset)
    if timestamp == MAX_TIMESTAMP:
        search = search_max_timestamp(log.segments.items, log.start_offset, limit)
    elif timestamp < 0:  # an unknown one, or one of what is tiered: nothing is
        return -1, -1, -1
    else:
        search = search_time(log.segments.items, timestamp, log.start_offset, limit)
    found = yield from search
    return (-1, -1, -1) if found is None else (found.timestamp, found.offset, found.leader_epoch)
