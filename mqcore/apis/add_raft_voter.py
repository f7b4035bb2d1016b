"""AddRaftVoter: let a node vote again that has lost its data folder. `mqcore quorum adopt` sends it.

Versions: 1 adds the choice to be answered before the commit, which is how both are answered here. The voters are
configured, so a node that is not one of them cannot be added, and the addresses are ignored. KIP-853.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.identity import NO_TOPIC_ID, BrokerId
from mqcore.raft import messages
from mqcore.raft.messages import VoterKey
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.add_raft_voter import AddRaftVoterRequest

API = Api(80, "AddRaftVoter", 0, 1, forwarded=True)

REASONS = {
    ErrorCode.NOT_CONTROLLER: "this node does not lead the metadata quorum",
    ErrorCode.INVALID_VOTER_KEY: "the node is not configured as a voter, or has not caught up under this directory id",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "another change of the voters is under way; try again",
    ErrorCode.KAFKA_STORAGE_ERROR: "the metadata log cannot be written",
}


def handle(request: AddRaftVoterRequest, call: Call) -> Response | Later:
    if request.cluster_id not in (None, call.services.cluster_id):
        return {"error_code": ErrorCode.INCONSISTENT_CLUSTER_ID, "error_message": "the node is of another cluster"}

    def answered(response: messages.Response) -> None:
        call.answer({"error_code": response.error, "error_message": REASONS.get(response.error)})

    key = VoterKey(BrokerId(request.voter_id), request.voter_directory_id or NO_TOPIC_ID)
    call.services.quorum.adopt(key, answered)
    return LATER
