"""DeleteRecords: advance the log start. Answered once the new starts are on disk, so deleted records never return, and
once all in-sync replicas have deleted the records too, or after the client's timeout.

Versions: all have the same fields.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.lookup import find_led_partition
from mqcore.identity import INTERNAL_TOPICS, Offset
from mqcore.partitions.partition import Partition
from mqcore.partitions.waiting_requests import CommitOutcome, Committed, StorageFault
from mqcore.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from mqcore.wire.requests.delete_records import DeleteRecordsPartition, DeleteRecordsRequest

API = Api(21, "DeleteRecords", 0, 2)

Result = dict[str, Any]


class Started(NamedTuple):
    """A partition whose log now starts at `start` on this broker."""

    partition: Partition
    start: Offset
    result: Result


def handle(request: DeleteRecordsRequest, call: Call) -> Response | Later:
    started: list[Started] = []
    topics: list[Response] = []
    for topic in request.topics:
        results = [_advance_start(call, topic.name, wanted, started) for wanted in topic.partitions]
        topics.append({"name": topic.name, "partitions": results})
    response = {"topics": topics}
    error = _write_checkpoints(call) if started else ErrorCode.NONE
    if error is not ErrorCode.NONE:
        for each in started:
            _fail(each.result, error)
        return response
    waiting = [each for each in started if not each.partition.is_deleted_everywhere(each.start)]
    if not waiting:
        return response
    PendingDeletion(call, response, request.timeout_ms).wait(waiting)
    return LATER


def _advance_start(call: Call, topic: str, wanted: DeleteRecordsPartition, started: list[Started]) -> Result:
    index = wanted.partition_index
    partition = find_led_partition(call.services, topic, index)
    if isinstance(partition, ErrorCode):
        return _fail({"partition_index": index}, partition)
    if topic in INTERNAL_TOPICS:
        return _fail({"partition_index": index}, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not partition.allows_record_deletion:
        return _fail({"partition_index": index}, ErrorCode.POLICY_VIOLATION)
    start = partition.delete_records(wanted.offset)
    if isinstance(start, Refusal):
        return _fail({"partition_index": index}, start.error)
    result: Result = {"partition_index": index, "low_watermark": start, "error_code": ErrorCode.NONE}
    started.append(Started(partition, start, result))
    return result


def _write_checkpoints(call: Call) -> ErrorCode:
    try:
        call.services.durability.write_checkpoints()
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


def _fail(result: Result, error: ErrorCode) -> Result:
    result.update(low_watermark=-1, error_code=error)
    return result


class PendingDeletion:
    """A response that waits until the followers have deleted the records."""

    def __init__(self, call: Call, response: Response, timeout_ms: int) -> None:
        self._call = call
        self._response = response
        self._waiting: dict[int, Result] = {}
        self._timer = call.services.clock.call_later(timeout_ms, self._on_timeout)

    def wait(self, started: list[Started]) -> None:
        self._waiting = {number: each.result for number, each in enumerate(started)}
        for number, (partition, start, _) in enumerate(started):
            partition.when_deleted_everywhere(start, partial(self._on_deleted, number))

    def _on_deleted(self, number: int, outcome: CommitOutcome) -> None:
        result = self._waiting.pop(number, None)
        if result is None:
            return
        if not isinstance(outcome, Committed):
            is_fault = isinstance(outcome, StorageFault)
            _fail(result, ErrorCode.KAFKA_STORAGE_ERROR if is_fault else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not self._waiting:
            self._timer.cancel()
            self._call.answer(self._response)

    def _on_timeout(self) -> None:
        for result in self._waiting.values():
            _fail(result, ErrorCode.REQUEST_TIMED_OUT)
        self._waiting.clear()
        self._call.answer(self._response)
