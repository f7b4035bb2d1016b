"""The requests of other controllers, served by a whole broker that is the only voter."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from mqcore.apis.add_raft_voter import REASONS
from mqcore.apis.call import LATER
from mqcore.apis.controller_table import CONTROLLER_TABLE
from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.raft import codec
from mqcore.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    SnapshotId,
    VoteRequest,
    VoterKey,
)
from mqcore.wire.batches import read_headers
from mqcore.wire.errors import ErrorCode
from mqcore.wire.messages import decode_response, encode_request
from tests.unit.mqcore.apis.running_broker import AwaitableCall, RunningBroker

STRANGER = VoterKey(BrokerId(2), UUID(int=2))
FOUNDING = SnapshotId(0, LeaderEpoch(0))
ADD_RAFT_VOTER = 80


def answer(broker: RunningBroker, request: Request, **changes: Any) -> Any:
    """The decoded response, with `changes` to the request's message."""
    key, version = codec.api_of(request)
    entry = CONTROLLER_TABLE[key]

    async def ask() -> bytes:
        call = AwaitableCall(broker.services, version)
        message = {**codec.encode_request(request, broker.services.cluster_id), **changes}
        frame = memoryview(encode_request(key, version, message))
        response = entry.handle(entry.decode(version, frame, 0), call)
        if response is LATER:
            response = await asyncio.wait_for(call.response, 10)
        return b"".join(piece for piece in entry.encode(version, response) if isinstance(piece, bytes))

    return decode_response(key, version, broker.run(ask()))


def ask(broker: RunningBroker, request: Request) -> Response:
    return codec.decode_response(request, answer(broker, request))


def fetch(broker: RunningBroker, offset: int = 0, last_epoch: int = 0) -> FetchRequest:
    return FetchRequest(broker.services.quorum.epoch, STRANGER, offset, LeaderEpoch(last_epoch), 0)


def test_a_replica_fetches_the_metadata_log(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    response = ask(broker, fetch(broker))
    assert isinstance(response, FetchResponse) and response.error is ErrorCode.NONE
    assert (response.leader, response.epoch) == (1, broker.services.quorum.epoch)
    last = list(read_headers(memoryview(response.records)))[-1][1]
    assert last.next_offset == response.high_watermark == broker.services.quorum.log.end_offset


def test_a_replica_fetches_the_snapshot(broker: RunningBroker) -> None:
    request = FetchSnapshotRequest(broker.services.quorum.epoch, STRANGER, FOUNDING, 0)
    response = ask(broker, request)
    assert isinstance(response, FetchSnapshotResponse) and response.snapshot == FOUNDING
    assert len(response.data) == response.size > 0
    beyond = ask(broker, request._replace(snapshot=SnapshotId(99, LeaderEpoch(9))))
    assert beyond.error is ErrorCode.SNAPSHOT_NOT_FOUND


def test_a_leader_keeps_its_epoch_against_a_stranger(broker: RunningBroker) -> None:
    quorum = broker.services.quorum
    old, me = LeaderEpoch(quorum.epoch - 1), quorum.me
    for request in (
        VoteRequest(old, STRANGER, me, old, 0, False),
        BeginQuorumEpochRequest(old, STRANGER.id, me),
        EndQuorumEpochRequest(old, STRANGER.id, ()),
    ):
        response = ask(broker, request)
        assert (response.error, response.leader) == (ErrorCode.FENCED_LEADER_EPOCH, 1), request
    other_folder = me._replace(directory=UUID(int=9))
    vote = VoteRequest(quorum.epoch, STRANGER, other_folder, old, 0, False)
    assert ask(broker, vote).error is ErrorCode.INVALID_VOTER_KEY


@pytest.mark.parametrize("key", [1, 52, 53, 54, 59])
def test_a_node_of_another_cluster_is_refused(broker: RunningBroker, key: int) -> None:
    quorum = broker.services.quorum
    requests: dict[int, Request] = {
        1: fetch(broker),
        52: VoteRequest(quorum.epoch, STRANGER, quorum.me, LeaderEpoch(0), 0, False),
        53: BeginQuorumEpochRequest(quorum.epoch, STRANGER.id, quorum.me),
        54: EndQuorumEpochRequest(quorum.epoch, STRANGER.id, ()),
        59: FetchSnapshotRequest(quorum.epoch, STRANGER, FOUNDING, 0),
    }
    assert answer(broker, requests[key], cluster_id="other").error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert answer(broker, requests[key], topics=[]).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 1])
def test_a_node_that_is_not_configured_as_a_voter_is_not_adopted(broker: RunningBroker, version: int) -> None:
    asked: dict[str, Any] = {"voter_id": 2, "voter_directory_id": UUID(int=2)}
    response = broker.request(ADD_RAFT_VOTER, version, cluster_id=None, **asked)
    assert response.error_code == ErrorCode.INVALID_VOTER_KEY
    assert response.error_message == REASONS[ErrorCode.INVALID_VOTER_KEY]
    other = broker.request(ADD_RAFT_VOTER, version, cluster_id="other", **asked)
    assert other.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
