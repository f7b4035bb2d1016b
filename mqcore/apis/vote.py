"""Vote: a node asks a voter of the metadata quorum for its vote. KIP-595.

Versions: only 2, which has pre-votes (KIP-996) and the directory ids of the voters (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Later, Response
from mqcore.apis.quorum_calls import pass_on
from mqcore.raft import codec

if TYPE_CHECKING:
    from mqcore.wire.requests.vote import VoteRequest

API = Api(52, "Vote", 2, 2)


def handle(request: VoteRequest, call: Call) -> Response | Later:
    return pass_on(codec.VOTE, request, call, codec.decode_vote)
