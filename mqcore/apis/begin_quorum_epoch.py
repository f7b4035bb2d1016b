"""BeginQuorumEpoch: the new leader of the metadata quorum tells a voter whom to fetch from. KIP-595.

Versions: only 1, which names the voter that is meant (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Later, Response
from mqcore.apis.quorum_calls import pass_on
from mqcore.raft import codec

if TYPE_CHECKING:
    from mqcore.wire.requests.begin_quorum_epoch import BeginQuorumEpochRequest

API = Api(53, "BeginQuorumEpoch", 1, 1)


def handle(request: BeginQuorumEpochRequest, call: Call) -> Response | Later:
    return pass_on(codec.BEGIN_QUORUM_EPOCH, request, call, codec.decode_begin_quorum_epoch)
