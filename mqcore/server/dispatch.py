"""Shell: from a frame to the API module that answers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from mqcore.apis import api_versions
from mqcore.apis.call import LATER, Api
from mqcore.apis.table import TABLE, Entry
from mqcore.metrics import Cell, HistogramCell, Metrics
from mqcore.server.call import ServerCall
from mqcore.wire.frames import API_VERSIONS, BadFrame, is_flexible, read_head
from mqcore.wire.hot import Piece

if TYPE_CHECKING:
    from mqcore.server.connection import Connection


class UnsupportedVersion(Exception):
    """No answer exists for it; the connection is closed, as Kafka does."""


class Served(NamedTuple):
    """An entry of the API table with its counters."""

    api: Api
    handle: Callable[[Any, Any], Any]
    decode: Callable[[int, memoryview, int], Any]
    encode: Callable[[int, Any], list[Piece]]
    requests: Cell
    seconds: HistogramCell


def with_counters(metrics: Metrics) -> dict[int, Served]:
    def served(entry: Entry) -> Served:
        name = entry.api.name
        return Served(*entry, metrics.requests.cell(name), metrics.request_seconds.histogram(name))

    return {key: served(entry) for key, entry in TABLE.items()}


def serve(connection: Connection, frame: memoryview) -> ServerCall:
    head = read_head(frame)
    served = connection.traffic.table.get(head.api_key)
    if served is None:
        raise UnsupportedVersion(f"request {head.api_key} is not served")
    api = served.api
    if not api.first_version <= head.version <= api.last_version:
        if head.api_key == API_VERSIONS:
            call = ServerCall(connection, served, head, 0, False)
            connection.expect(call)
            call.answer(api_versions.unsupported())
            return call
        raise UnsupportedVersion(f"{api.name} {head.version} is not served")
    flexible = head.api_key != API_VERSIONS and is_flexible(head.api_key, head.version)
    call = ServerCall(connection, served, head, head.version, flexible)
    try:
        request = served.decode(head.version, frame, head.body_start)
    except BadFrame as bad:
        raise BadFrame(f"{api.name} {head.version}: {bad}") from bad
    connection.expect(call)
    response = served.handle(request, call)
    if response is not LATER:
        call.answer(response)
    return call
