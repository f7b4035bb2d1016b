"""FetchSnapshot: a replica of the metadata log fetches a part of its leader's snapshot. KIP-630.

Versions: only 1, which has the replica's directory id (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Later, Response
from mqcore.apis.quorum_calls import pass_on
from mqcore.raft import codec

if TYPE_CHECKING:
    from mqcore.wire.requests.fetch_snapshot import FetchSnapshotRequest

API = Api(59, "FetchSnapshot", 1, 1)


def handle(request: FetchSnapshotRequest, call: Call) -> Response | Later:
    return pass_on(codec.FETCH_SNAPSHOT, request, call, codec.decode_fetch_snapshot)
