"""Shell: from a frame to the call that answers it."""

from __future__ import annotations

from typing import Any

from mqcore.apis import api_versions
from mqcore.apis.services import Services
from mqcore.server.call import Origin, ServerCall
from mqcore.server.served_apis import ServedApis
from mqcore.wire.fast_primitives import Piece
from mqcore.wire.frames import API_VERSIONS, BadFrame, is_flexible, read_head


class UnsupportedVersion(Exception):
    """No response format exists for this API or version, so the connection is closed, as Kafka does."""


def parse_call(table: ServedApis, services: Services, frame: memoryview, origin: Origin) -> tuple[ServerCall, Any]:
    """The call and its decoded request. `BadFrame` or `UnsupportedVersion` if there is nothing to answer."""
    head = read_head(frame)
    served = table.get(head.api_key)
    if served is None:
        raise UnsupportedVersion(f"API key {head.api_key} is not supported")
    api = served.api
    if not api.first_version <= head.version <= api.last_version:
        if head.api_key == API_VERSIONS:  # KIP-511: a version-0 response tells the client which versions exist
            served = served._replace(handle=lambda request, call: api_versions.unsupported_version(call))
            return ServerCall(services, served, head, 0, False, origin), None
        raise UnsupportedVersion(f"{api.name} version {head.version} is not supported")
    flexible = head.api_key != API_VERSIONS and is_flexible(head.api_key, head.version)
    forwarding = services.forwarding
    if forwarding is not None and api.forwarded and not services.controller.is_active:
        served = served._replace(handle=forwarding.forward, encode=_pass_on)
        return ServerCall(services, served, head, head.version, flexible, origin), bytes(frame)
    try:
        request = served.decode(head.version, frame, head.body_start)
    except BadFrame as bad:
        raise BadFrame(f"{api.name} version {head.version}: {bad}") from bad
    return ServerCall(services, served, head, head.version, flexible, origin), request


def _pass_on(version: int, body: bytes) -> list[Piece]:
    return [body]
