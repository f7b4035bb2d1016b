"""Machine: what a leader's log has for a replica, and whether the replica gets on with what it is sent."""

from __future__ import annotations

from mqcore.identity import Millis
from mqcore.log.epochs import EpochEnd
from mqcore.raft.messages import FetchRequest, FetchResponse, FetchSnapshotRequest, SnapshotId
from mqcore.raft.ready import LogView
from mqcore.raft.state import Progress
from mqcore.raft.view import View
from mqcore.wire.errors import ErrorCode


def fetch_response(view: View, request: FetchRequest) -> FetchResponse:
    response = FetchResponse(ErrorCode.NONE, view.epoch, view.leader, view.state.high_watermark)
    match mismatch(view.log, request):
        case SnapshotId() as snapshot:
            return response._replace(snapshot=snapshot)
        case EpochEnd() as diverging:
            return response._replace(diverging=diverging)
        case None:
            has_records = request.offset < view.log.end
            return response._replace(records_from=request.offset if has_records else None)


def mismatch(log: LogView, request: FetchRequest) -> SnapshotId | EpochEnd | None:
    """Where the replica's log leaves the leader's, or the snapshot it needs because the leader's log begins later."""
    snapshot = log.snapshot
    if snapshot is not None and (
        request.offset < log.start
        or request.last_epoch < snapshot.epoch
        or (request.offset == log.start and request.last_epoch != snapshot.epoch)
    ):
        return snapshot
    if snapshot is None and request.offset == 0:
        return None
    end = log.end_of(request.last_epoch)
    if end.epoch < 0:
        return EpochEnd(log.last_epoch, log.end)
    return end if end.epoch != request.last_epoch or end.end_offset < request.offset else None


def is_sent(response: FetchResponse) -> bool:
    """Whether the replica has something to store, so that its next fetch must ask for something else."""
    return any(part is not None for part in (response.diverging, response.snapshot, response.records_from))


def is_news(request: FetchRequest, response: FetchResponse) -> bool:
    return is_sent(response) or response.high_watermark > request.high_watermark


def progress_time(view: View, old: Progress, request: FetchRequest | FetchSnapshotRequest) -> Millis:
    is_repeated = old.was_sent and _position(old.asked) == _position(request)
    return old.progressed_at if is_repeated else view.now


def _position(request: FetchRequest | FetchSnapshotRequest) -> tuple[object, int]:
    if isinstance(request, FetchRequest):
        return request.last_epoch, request.offset
    return request.snapshot, request.position
