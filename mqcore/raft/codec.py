"""Codec: the quorum's requests and responses ↔ Vote 2, BeginQuorumEpoch 1, EndQuorumEpoch 1, Fetch 18, FetchSnapshot 1.

A sender encodes requests and decodes responses; the API modules do the reverse. What is encoded is a mapping and what
is decoded a named tuple, as in `wire/messages.py`. The API modules compare the cluster id.

Own rule: every message is about the one partition of the metadata log. Another one is a malformed message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, assert_never

from mqcore.identity import METADATA_ID, METADATA_TOPIC, NO_TOPIC_ID, BrokerId, LeaderEpoch
from mqcore.log.epochs import EpochEnd
from mqcore.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    SnapshotId,
    VoteRequest,
    VoteResponse,
    VoterKey,
)
from mqcore.wire.errors import ErrorCode
from mqcore.wire.frames import BadFrame

Message = Mapping[str, Any]
Api = tuple[int, int]
"""API key and version."""

VOTE: Final = (52, 2)
BEGIN_QUORUM_EPOCH: Final = (53, 1)
END_QUORUM_EPOCH: Final = (54, 1)
FETCH: Final = (1, 18)
FETCH_SNAPSHOT: Final = (59, 1)

FETCH_BYTES_MAX: Final = 1 << 20

_NOBODY: Final = -1


def api_of(request: Request) -> Api:
    match request:
        case VoteRequest():
            return VOTE
        case BeginQuorumEpochRequest():
            return BEGIN_QUORUM_EPOCH
        case EndQuorumEpochRequest():
            return END_QUORUM_EPOCH
        case FetchRequest():
            return FETCH
        case FetchSnapshotRequest():
            return FETCH_SNAPSHOT
        case _:
            assert_never(request)


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


def encode_request(request: Request, cluster_id: str, wait_ms: int = 0) -> Message:
    """`wait_ms`: how long a fetch may wait. The leader of this project uses its own setting."""
    match request:
        case VoteRequest(epoch, candidate, voter, last_epoch, end, pre_vote):
            partition = {
                "partition_index": 0,
                "replica_epoch": epoch,
                "replica_id": candidate.id,
                "replica_directory_id": candidate.directory,
                "voter_directory_id": voter.directory,
                "last_offset_epoch": last_epoch,
                "last_offset": end,
                "pre_vote": pre_vote,
            }
            return {"cluster_id": cluster_id, "voter_id": voter.id, "topics": _topics(partition)}
        case BeginQuorumEpochRequest(epoch, leader, voter):
            partition = {
                "partition_index": 0,
                "voter_directory_id": voter.directory,
                "leader_id": leader,
                "leader_epoch": epoch,
            }
            return {"cluster_id": cluster_id, "voter_id": voter.id, "topics": _topics(partition)}
        case EndQuorumEpochRequest(epoch, leader, successors):
            candidates = [{"candidate_id": node, "candidate_directory_id": NO_TOPIC_ID} for node in successors]
            partition = {
                "partition_index": 0,
                "leader_id": leader,
                "leader_epoch": epoch,
                "preferred_candidates": candidates,
            }
            return {"cluster_id": cluster_id, "topics": _topics(partition)}
        case FetchRequest(epoch, replica, offset, last_epoch, high_watermark):
            partition = {
                "partition": 0,
                "current_leader_epoch": epoch,
                "fetch_offset": offset,
                "last_fetched_epoch": last_epoch,
                "partition_max_bytes": FETCH_BYTES_MAX,
                "replica_directory_id": replica.directory,
                "high_watermark": high_watermark,
            }
            return {
                "cluster_id": cluster_id,
                "replica_state": {"replica_id": replica.id, "replica_epoch": -1},
                "max_wait_ms": wait_ms,
                "min_bytes": 0,
                "topics": [{"topic_id": METADATA_ID, "partitions": [partition]}],
            }
        case FetchSnapshotRequest(epoch, replica, snapshot, position):
            partition = {
                "partition": 0,
                "current_leader_epoch": epoch,
                "snapshot_id": _snapshot_fields(snapshot),
                "position": position,
                "replica_directory_id": replica.directory,
            }
            return {
                "cluster_id": cluster_id,
                "replica_id": replica.id,
                "max_bytes": FETCH_BYTES_MAX,
                "topics": [{"name": METADATA_TOPIC, "partitions": [partition]}],
            }
        case _:
            assert_never(request)


def decode_vote(message: Any) -> VoteRequest:
    each = _partition(message.topics)
    return VoteRequest(
        LeaderEpoch(each.replica_epoch),
        _key(each.replica_id, each.replica_directory_id),
        _key(message.voter_id, each.voter_directory_id),
        LeaderEpoch(each.last_offset_epoch),
        each.last_offset,
        each.pre_vote,
    )


def decode_begin_quorum_epoch(message: Any) -> BeginQuorumEpochRequest:
    each = _partition(message.topics)
    voter = _key(message.voter_id, each.voter_directory_id)
    return BeginQuorumEpochRequest(LeaderEpoch(each.leader_epoch), BrokerId(each.leader_id), voter)


def decode_end_quorum_epoch(message: Any) -> EndQuorumEpochRequest:
    each = _partition(message.topics)
    successors = tuple(BrokerId(candidate.candidate_id) for candidate in each.preferred_candidates)
    return EndQuorumEpochRequest(LeaderEpoch(each.leader_epoch), BrokerId(each.leader_id), successors)


def decode_fetch(message: Any) -> FetchRequest:
    each = _partition(message.topics, "topic_id", METADATA_ID)
    return FetchRequest(
        LeaderEpoch(each.current_leader_epoch),
        _key(message.replica_state.replica_id, each.replica_directory_id),
        each.fetch_offset,
        LeaderEpoch(each.last_fetched_epoch),
        each.high_watermark,
    )


def decode_fetch_snapshot(message: Any) -> FetchSnapshotRequest:
    each = _partition(message.topics, "name")
    key = _key(message.replica_id, each.replica_directory_id)
    return FetchSnapshotRequest(LeaderEpoch(each.current_leader_epoch), key, _snapshot(each.snapshot_id), each.position)


# ── responses ────────────────────────────────────────────────────────────────────────────────────


def encode_response(api: Api, response: Response) -> Message:
    """The answer to a request of `api`. An `EpochResponse` answers any of them."""
    error, epoch, leader = response[:3]
    told = {"leader_id": _NOBODY if leader is None else leader, "leader_epoch": epoch}
    if api in (FETCH, FETCH_SNAPSHOT):
        partition: dict[str, Any] = {"error_code": error, "current_leader": told}
    else:
        partition = {"partition_index": 0, "error_code": error, **told}
    match response:
        case VoteResponse(granted=granted):
            partition["vote_granted"] = granted
        case FetchResponse(high_watermark=high_watermark, diverging=diverging, snapshot=snapshot, records=records):
            partition |= {"high_watermark": high_watermark, "records": records}
            if diverging is not None:
                partition["diverging_epoch"] = {"epoch": diverging.epoch, "end_offset": diverging.end_offset}
            if snapshot is not None:
                partition["snapshot_id"] = _snapshot_fields(snapshot)
        case FetchSnapshotResponse(snapshot=snapshot, position=position, size=size, data=data):
            partition |= {"position": position, "size": size, "unaligned_records": data}
            partition["snapshot_id"] = _snapshot_fields(snapshot)
        case EpochResponse() if api == FETCH:
            partition["records"] = b""
        case EpochResponse() if api == FETCH_SNAPSHOT:
            partition["snapshot_id"] = _snapshot_fields(None)
        case EpochResponse():
            pass
        case _:
            assert_never(response)
    if api == FETCH:
        return {"responses": [{"topic_id": METADATA_ID, "partitions": [partition]}]}
    return {"topics": [{"name" if api == FETCH_SNAPSHOT else "topic_name": METADATA_TOPIC, "partitions": [partition]}]}


def decode_response(request: Request, message: Any) -> Response:
    """The answer to `request`. Raises `BadFrame` if it is malformed or refuses the request as a whole."""
    if message.error_code != ErrorCode.NONE:
        raise BadFrame(f"the request was refused with {_error(message.error_code).name}")
    match request:
        case VoteRequest():
            each = _partition(message.topics)
            return VoteResponse(_error(each.error_code), *_leader(each), each.vote_granted)
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            each = _partition(message.topics)
            return EpochResponse(_error(each.error_code), *_leader(each))
        case FetchRequest():
            each = _partition(message.responses, "topic_id", METADATA_ID)
            epoch, end = each.diverging_epoch
            return FetchResponse(
                _error(each.error_code),
                *_leader(each.current_leader),
                each.high_watermark,
                EpochEnd(epoch, end) if end >= 0 else None,
                _optional_snapshot(each.snapshot_id),
                records=bytes(each.records or b""),
            )
        case FetchSnapshotRequest():
            each = _partition(message.topics, "name")
            return FetchSnapshotResponse(
                _error(each.error_code),
                *_leader(each.current_leader),
                _optional_snapshot(each.snapshot_id),
                each.position,
                each.size,
                bytes(each.unaligned_records),
            )
        case _:
            assert_never(request)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────


def _topics(partition: Message) -> list[Message]:
    return [{"topic_name": METADATA_TOPIC, "partitions": [partition]}]


def _partition(topics: Any, name: str = "topic_name", expected: object = METADATA_TOPIC) -> Any:
    if len(topics) != 1 or getattr(topics[0], name) != expected or len(topics[0].partitions) != 1:
        raise BadFrame(f"a message of the quorum must name partition 0 of {METADATA_TOPIC}")
    return topics[0].partitions[0]


def _key(node: int, directory: Any) -> VoterKey:
    return VoterKey(BrokerId(node), directory or NO_TOPIC_ID)


def _leader(each: Any) -> tuple[LeaderEpoch, BrokerId | None]:
    return LeaderEpoch(each.leader_epoch), None if each.leader_id < 0 else BrokerId(each.leader_id)


def _snapshot(fields: Any) -> SnapshotId:
    return SnapshotId(fields.end_offset, LeaderEpoch(fields.epoch))


def _optional_snapshot(fields: Any) -> SnapshotId | None:
    return None if fields.end_offset < 0 else _snapshot(fields)


def _snapshot_fields(snapshot: SnapshotId | None) -> Message:
    if snapshot is None:
        return {"end_offset": -1, "epoch": -1}
    return {"end_offset": snapshot.end, "epoch": snapshot.epoch}


def _error(code: int) -> ErrorCode:
    """A code of a newer node that this one does not know counts as an unknown error."""
    return ErrorCode(code) if code in ErrorCode.__members__.values() else ErrorCode.UNKNOWN_SERVER_ERROR
