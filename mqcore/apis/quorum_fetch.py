"""Fetch: on the controller's listener: a replica of the metadata log fetches from its leader. KIP-595.

Versions: only 18, which has the replica's directory id (KIP-853) and its high watermark (KIP-1166).
"""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Later, Response
from mqcore.apis.quorum_calls import pass_on
from mqcore.raft import codec

API = Api(1, "Fetch", 18, 18)

FetchRequest = Any
"""Decoded by Kafka's schema. Clients' fetches have a codec, and a type, of their own."""


def handle(request: FetchRequest, call: Call) -> Response | Later:
    return pass_on(codec.FETCH, request, call, codec.decode_fetch)
