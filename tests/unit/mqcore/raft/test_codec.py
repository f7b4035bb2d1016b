"""What the nodes of the quorum send each other: every request and response survives its message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.identity import METADATA_ID, METADATA_TOPIC, BrokerId, LeaderEpoch
from mqcore.log.epochs import EpochEnd
from mqcore.raft import codec
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
from mqcore.wire.messages import decode_request, decode_response, encode_request, encode_response

small = st.integers(0, 9)
keys = st.builds(VoterKey, small, st.uuids())
snapshots = st.builds(SnapshotId, small, small)
requests = st.one_of(
    st.builds(VoteRequest, small, keys, keys, st.integers(-1, 9), small, st.booleans()),
    st.builds(BeginQuorumEpochRequest, small, small, keys),
    st.builds(EndQuorumEpochRequest, small, small, st.lists(small, max_size=3).map(tuple)),
    st.builds(FetchRequest, small, keys, small, st.integers(-1, 9), small),
    st.builds(FetchSnapshotRequest, small, keys, snapshots, small),
)
heads = (st.sampled_from([ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH]), small, st.none() | small)
votes = st.builds(VoteResponse, *heads, st.booleans())
told = st.builds(EpochResponse, *heads)
answers = st.builds(lambda error, epoch, leader, end: FetchResponse(error, epoch, leader, end), *heads, small)
fetched = st.one_of(
    st.builds(lambda answer, records: answer._replace(records=records), answers, st.binary(max_size=5)),
    st.builds(lambda answer, end: answer._replace(diverging=EpochEnd(*end)), answers, st.tuples(small, small)),
    st.builds(lambda answer, snapshot: answer._replace(snapshot=snapshot), answers, snapshots),
)
parts = st.builds(FetchSnapshotResponse, *heads, snapshots, small, small, st.binary(max_size=5))

DECODERS: dict[tuple[int, int], Callable[[Any], Request]] = {
    codec.VOTE: codec.decode_vote,
    codec.BEGIN_QUORUM_EPOCH: codec.decode_begin_quorum_epoch,
    codec.END_QUORUM_EPOCH: codec.decode_end_quorum_epoch,
    codec.FETCH: codec.decode_fetch,
    codec.FETCH_SNAPSHOT: codec.decode_fetch_snapshot,
}
KEY = VoterKey(BrokerId(1), UUID(int=1))
VOTE = VoteRequest(LeaderEpoch(1), KEY, KEY, LeaderEpoch(0), 0, False)
FETCH = FetchRequest(LeaderEpoch(1), KEY, 0, LeaderEpoch(0), 0)


def responses(request: Request) -> st.SearchStrategy[Response]:
    match request:
        case VoteRequest():
            return votes
        case FetchRequest():
            return fetched
        case FetchSnapshotRequest():
            return parts
        case _:
            return told


def back(request: Request, message: Any) -> Response:
    api = codec.api_of(request)
    return codec.decode_response(request, decode_response(*api, encode_response(*api, message)))


@given(requests)
def test_a_request_arrives_as_it_was_sent(request: Request) -> None:
    api = codec.api_of(request)
    message = decode_request(*api, encode_request(*api, codec.encode_request(request, "cluster")))
    assert DECODERS[api](message) == request
    assert message.cluster_id == "cluster"


@given(requests, st.data())
def test_a_response_arrives_as_it_was_given(request: Request, data: st.DataObject) -> None:
    response = data.draw(responses(request))
    assert back(request, codec.encode_response(codec.api_of(request), response)) == response


@pytest.mark.parametrize(
    "request_", [VOTE, FETCH, FetchSnapshotRequest(LeaderEpoch(1), KEY, SnapshotId(0, LeaderEpoch(0)), 0)]
)
def test_any_request_can_be_refused_with_an_error_and_the_epoch_alone(request_: Request) -> None:
    refusal = EpochResponse(ErrorCode.KAFKA_STORAGE_ERROR, LeaderEpoch(7), BrokerId(2))
    response = back(request_, codec.encode_response(codec.api_of(request_), refusal))
    assert response[:3] == refusal and not isinstance(response, EpochResponse)


def test_a_response_that_refuses_the_whole_request_is_malformed() -> None:
    with pytest.raises(BadFrame, match="INCONSISTENT_CLUSTER_ID"):
        back(VOTE, {"error_code": ErrorCode.INCONSISTENT_CLUSTER_ID})


def test_an_error_that_this_node_does_not_know_is_still_an_error() -> None:
    message = {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [{"error_code": 999}]}]}
    assert back(VOTE, message)[0] is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("topics", [[], [{"topic_id": UUID(int=5)}], [{"topic_id": METADATA_ID}]])
def test_a_fetch_of_anything_but_the_metadata_log_is_malformed(topics: list[Any]) -> None:
    message = {**codec.encode_request(FETCH, "cluster"), "topics": topics}
    with pytest.raises(BadFrame, match=METADATA_TOPIC):
        codec.decode_fetch(decode_request(*codec.FETCH, encode_request(*codec.FETCH, message)))
