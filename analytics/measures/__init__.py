"""Frames to frames: what is counted. One table of all measures; each is plain Spark, for a batch and a stream alike.

Everything here can be added up: a measure names its key, and for each column how two rows of one key become one
(added, the least, the most). So a stream computes the same frame from each batch and merges it into what is there,
and the sum is what one pass over the whole log would have given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from analytics.measures import counting, people, timing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

How = Literal["add", "least", "most"]
Shape = Literal["record", "event", "step"]
"""What a measure looks at: every record, every distinct event, or every distinct event beside its request."""


@dataclass(frozen=True, slots=True)
class Measure:
    """The table analytics_<name>: `frame` gives exactly its keys and columns, each key once."""

    name: str
    of: Shape
    keys: tuple[str, ...]
    columns: Mapping[str, How]
    frame: Callable[[DataFrame], DataFrame]


MEASURES = (
    Measure(
        "partition",
        "record",
        ("topic", "partition"),
        {"records": "add", "first_offset": "least", "next_offset": "most", "last_log_ms": "most"},
        counting.partitions,
    ),
    Measure("unreadable", "event", ("topic", "partition", "fault"), {"records": "add"}, counting.unreadable),
    Measure(
        "total",
        "event",
        ("topic", "partition", "sale_id", "kind"),
        {"events": "add", "units": "add", "amount": "add", "late": "add"},
        counting.totals,
    ),
    Measure("flow", "event", ("sale_id", "at_ms", "kind"), {"events": "add"}, timing.flow),
    Measure(
        "sell_through",
        "event",
        ("sale_id", "sku", "at_ms"),
        {"reserved": "add", "released": "add", "sold": "add"},
        timing.sell_through,
    ),
    Measure(
        "revenue",
        "event",
        ("sale_id", "at_ms"),
        {"orders": "add", "amount": "add", "refunded": "add"},
        timing.revenue,
    ),
    Measure(
        "sku",
        "event",
        ("sale_id", "sku"),
        {"requests": "add", "wanted": "add", "reserved": "add", "sold_out": "add"},
        counting.skus,
    ),
    Measure(
        "buyer",
        "event",
        ("sale_id", "user_id"),
        {"requests": "add", "refused": "add", "granted": "add", "first_ms": "least", "last_ms": "most"},
        people.buyers,
    ),
    Measure(
        "latency",
        "step",
        ("sale_id", "stage", "bucket"),
        {"events": "add", "most_ms": "most"},
        timing.latency,
    ),
    Measure("fairness", "step", ("sale_id", "sku", "came_ms"), {"granted": "add", "refused": "add"}, people.fairness),
)
