"""Shell: ListOffsets: the first offset at or after a time, or a special offset for a negative time.

Versions: 2 adds the isolation level, 4 the leader epoch, 5 the error OFFSET_NOT_AVAILABLE; 7, 8, 9 and 11 each add a
special offset (see `FIRST_VERSION_OF`). Left out: tiered storage, so its special offsets are always −1.

A search by time may read much of a log. It yields to other connections every few milliseconds.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Generator
from typing import TYPE_CHECKING

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.lookup import find_led_in_epoch, find_partition
from mqcore.host import Clock
from mqcore.log.errors import LogFault
from mqcore.partitions.partition import Partition
from mqcore.wire.batches import BadBatch
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fetch import READ_COMMITTED

if TYPE_CHECKING:
    from mqcore.wire.requests.list_offsets import ListOffsetsPartition, ListOffsetsRequest

API = Api(2, "ListOffsets", 1, 11)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

DEBUGGER = -2
"""As the replica id: the client wants to see the copy of the broker that it asks. Kafka knows the same number."""

TURN_MS_MAX = 5
UNTIMED_STEPS = 4  # a search this short never yields

Search = Generator[None, None, Response]
"""Yields where it may pause, and returns the response."""


def handle(request: ListOffsetsRequest, call: Call) -> Response | Later:
    search = _response(request, call)
    response = _run_for_a_turn(search, call.services.clock)
    if response is not None:
        return response
    _continue_later(search, call)
    return LATER


def _run_for_a_turn(search: Search, clock: Clock) -> Response | None:
    """The response if the search ends within this turn."""
    end_ms = clock.now().monotonic_ms + TURN_MS_MAX
    try:
        for step in itertools.count():
            next(search)
            if step >= UNTIMED_STEPS and clock.now().monotonic_ms >= end_ms:
                return None
        raise AssertionError("count() never ends")
    except StopIteration as finished:
        response: Response = finished.value
        return response


def _continue_later(search: Search, call: Call) -> None:
    def run() -> None:
        try:
            response = _run_for_a_turn(search, call.services.clock)
        except Exception:
            call.hang_up()  # as for every request that fails
            call.answer(None)
            raise
        if response is None:
            _continue_later(search, call)
        else:
            call.when_gone = None
            call.answer(response)

    timer = call.services.clock.call_soon(run)
    call.when_gone = timer.cancel


def _response(request: ListOffsetsRequest, call: Call) -> Search:
    committed_only = request.isolation_level == READ_COMMITTED
    requested = Counter((topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions)
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            if requested[topic.name, wanted.partition_index] > 1:  # each search may decompress a batch
                result: Response = {"error_code": ErrorCode.INVALID_REQUEST}
            elif request.replica_id == DEBUGGER:
                result = _end_of_copy(call, topic.name, wanted)
            else:
                result = yield from _partition(call, topic.name, wanted, committed_only)
            partitions.append({"partition_index": wanted.partition_index, **result})
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}


def _end_of_copy(call: Call, topic: str, wanted: ListOffsetsPartition) -> Response:
    """Where the log of this broker's copy ends, whatever its role."""
    if wanted.timestamp != LATEST:
        return {"error_code": ErrorCode.INVALID_REQUEST}
    partition = find_partition(call.services, topic, None, wanted.partition_index)
    if isinstance(partition, ErrorCode):
        return {"error_code": partition}
    return {"timestamp": -1, "offset": partition.log_end_offset, "leader_epoch": partition.leader_epoch}


def _partition(call: Call, topic: str, wanted: ListOffsetsPartition, committed_only: bool) -> Search:
    partition = find_led_in_epoch(call.services, topic, wanted.partition_index, wanted.current_leader_epoch)
    if isinstance(partition, ErrorCode):
        return {"error_code": partition}
    if call.version < FIRST_VERSION_OF.get(wanted.timestamp, 0):
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION}
    if wanted.timestamp not in (EARLIEST, EARLIEST_LOCAL) and not partition.knows_committed_end:
        return {"error_code": ErrorCode.OFFSET_NOT_AVAILABLE if call.version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE}
    try:
        timestamp, offset, epoch = yield from _find_offset(partition, wanted.timestamp, committed_only)
    except LogFault as fault:
        partition.go_offline(str(fault))
        return {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}
    except (OSError, BadBatch):
        return {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}
    return {"timestamp": timestamp, "offset": offset, "leader_epoch": epoch}


def _find_offset(
    partition: Partition, timestamp: int, committed_only: bool
) -> Generator[None, None, tuple[int, int, int]]:
    """(timestamp, offset, leader epoch), each −1 if it does not exist."""
    if timestamp == LATEST:
        return -1, partition.visible_end(committed_only=committed_only), partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, partition.log_start_offset, partition.log_start_epoch
    if timestamp == MAX_TIMESTAMP:
        search = partition.log.search_max_timestamp(limit=partition.visible_end(committed_only=committed_only))
    elif timestamp < 0:  # offsets of tiered storage, and unknown special times
        return -1, -1, -1
    else:
        search = partition.log.search_time(timestamp, limit=partition.visible_end(committed_only=committed_only))
    found = yield from search
    return (-1, -1, -1) if found is None else (found.timestamp, found.offset, found.leader_epoch)
