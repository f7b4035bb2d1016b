"""Shell: the API table of one listener, with the counters that each API increments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mqcore.apis.call import Api
from mqcore.apis.table import ApiTable
from mqcore.metrics import Cell, HistogramCell, Metrics
from mqcore.wire.fast_primitives import Piece


class ServedApi(NamedTuple):
    """An entry of the API table with its counters."""

    api: Api
    handle: Callable[[Any, Any], Any]
    decode: Callable[[int, memoryview, int], Any]
    encode: Callable[[int, Any], list[Piece]]
    requests: Cell
    seconds: HistogramCell


ServedApis = Mapping[int, ServedApi]
"""By API key."""


def served_apis(metrics: Metrics, table: ApiTable) -> ServedApis:
    return {
        key: ServedApi(
            *entry,
            requests=metrics.requests.cell(entry.api.name),
            seconds=metrics.request_seconds.histogram(entry.api.name),
        )
        for key, entry in table.items()
    }
