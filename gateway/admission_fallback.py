"""Admission, with the projection's table as a fallback for requests that Redis may have forgotten.

A known key gets its own answer before any other refusal. Redis knows most keys. After FLUSHALL, after a restart with
old data, and for requests older than its memory, each batch asks the table once for the requests that Redis did not
know and might have known. While a forgotten request may still be in the queue, a final refusal would be a guess, so the
answer is "send it again".
"""

from __future__ import annotations

import hashlib
import logging
from asyncio import to_thread
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection
from redis.exceptions import RedisError

from gateway import admission
from gateway.admission import AdmissionRequest, AdmissionResult, MemoryLoss, Verdict
from gateway.backlog_monitor import shared_monitor
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.topics import PURCHASE_REQUESTS

log = logging.getLogger(__name__)

FINAL_REFUSALS = (Verdict.CLOSED, Verdict.SOLD_OUT, Verdict.NO_SUCH_SALE)
"""A client does not retry after these."""
UNKNOWN_POSITION = RecordPosition(PURCHASE_REQUESTS.name, 0, 0)
"""For rows without a position. The request is decided, so its position no longer matters."""

_SELECT = """
SELECT request_id, user_id, sku, quantity, place FROM gateway_outcome WHERE request_id = ANY(%s::uuid[])
"""


class ProjectedRequest(NamedTuple):
    """A request as it is stored in the projection's table."""

    user_id: str
    sku: str | None
    quantity: int | None
    position: str | None

    @property
    def fingerprint(self) -> str | None:
        return None if self.sku is None or self.quantity is None else body_fingerprint(self.sku, self.quantity)


@lru_cache(maxsize=1024)
def body_fingerprint(sku: str, quantity: int) -> str:
    """Two requests with one key must have the same fingerprint."""
    return hashlib.sha256(f"{sku}:{quantity}".encode()).hexdigest()[:16]


async def admit_requests(
    requests: Sequence[AdmissionRequest], placed: Sequence[tuple[UUID, RecordPosition]] = ()
) -> list[AdmissionResult]:
    """Like `admission.admit_requests`, but requests that Redis has forgotten are found in the table."""
    results = await admission.admit_requests(requests, placed)
    if not any(map(_may_be_forgotten, results)):
        return results
    return await to_thread(_correct_results, requests, results)  # the database must not hold up the loop


def _correct_results(requests: Sequence[AdmissionRequest], results: Sequence[AdmissionResult]) -> list[AdmissionResult]:
    doubtful = [
        request.request_id for request, result in zip(requests, results, strict=True) if _may_be_forgotten(result)
    ]
    known = _find_projected(doubtful)
    corrected = [
        _correct_result(request, result, known) if _may_be_forgotten(result) else result
        for request, result in zip(requests, results, strict=True)
    ]
    _restore(requests, corrected, known or {})
    return corrected


def _may_be_forgotten(result: AdmissionResult) -> bool:
    if result.verdict is Verdict.ADMITTED:
        return not result.is_first
    is_conclusive = result.verdict in (Verdict.OTHER_BODY, Verdict.NOT_OPEN_YET)
    return result.memory_loss is not MemoryLoss.NONE and not is_conclusive


def _find_projected(request_ids: Sequence[UUID]) -> Mapping[UUID, ProjectedRequest] | None:
    """None if the table cannot be read."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(_SELECT, [list(request_ids)])
            return {row[0]: ProjectedRequest(*row[1:]) for row in cursor.fetchall()}
    except DatabaseError as fault:
        log.warning("cannot look up requests that Redis has forgotten", extra={"reason": str(fault)})
        return None
    finally:
        close_old_connections()


def _correct_result(
    request: AdmissionRequest, result: AdmissionResult, known: Mapping[UUID, ProjectedRequest] | None
) -> AdmissionResult:
    found = None if known is None else known.get(request.request_id)
    if found is not None:
        if request.fingerprint and found.fingerprint not in (None, request.fingerprint):
            return AdmissionResult(Verdict.OTHER_BODY, result.now_ms)
        position = UNKNOWN_POSITION if found.position is None else RecordPosition.parse(found.position)
        return AdmissionResult(Verdict.KNOWN, result.now_ms, result.now_ms, result.now_ms, position)
    if result.verdict not in FINAL_REFUSALS:
        return result
    is_unknown = known is None or (result.memory_loss is MemoryLoss.RECENT and not _is_queue_empty())
    return result._replace(verdict=Verdict.UNKNOWN) if is_unknown else result


def _is_queue_empty() -> bool:
    """True if every request is decided, as far as this gateway can see."""
    undecided = shared_monitor().undecided()
    return bool(undecided) and not any(undecided.values())


def _restore(
    requests: Sequence[AdmissionRequest], results: Sequence[AdmissionResult], known: Mapping[UUID, ProjectedRequest]
) -> None:
    """Write the found requests back to Redis, so that it answers the next call. This also overwrites a request that
    was just admitted with another body."""
    try:
        for request, result in zip(requests, results, strict=True):
            found = known.get(request.request_id)
            if found is not None and found.fingerprint is not None and found.position is not None:
                admission.restore_request(
                    request.request_id, found.fingerprint, found.user_id, result.now_ms, found.position
                )
    except RedisError as fault:
        log.warning("cannot write forgotten requests back to Redis", extra={"reason": str(fault)})
