"""EndQuorumEpoch: the leader of the metadata quorum resigns, and names its successors. KIP-595.

Versions: only 1, which is the one that the nodes of this project send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Later, Response
from mqcore.apis.quorum_calls import pass_on
from mqcore.raft import codec

if TYPE_CHECKING:
    from mqcore.wire.requests.end_quorum_epoch import EndQuorumEpochRequest

API = Api(54, "EndQuorumEpoch", 1, 1)


def handle(request: EndQuorumEpochRequest, call: Call) -> Response | Later:
    return pass_on(codec.END_QUORUM_EPOCH, request, call, codec.decode_end_quorum_epoch)
