"""The table of measures: what is counted, in plain Spark that works for a batch and for a stream.

A measure names its key columns, and for each other column how two rows with the same key are merged: by sum, minimum or
maximum. A stream computes the same frame for each batch and merges it into the table, so the result equals one pass
over the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from analytics.measures import buyers, counting, timing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MergeRule = Literal["add", "least", "most"]
FrameShape = Literal["record", "event", "step"]
"""The input of a measure: every record, every distinct event, or every distinct event joined with its request."""


@dataclass(frozen=True, slots=True)
class Measure:
    """`frame` returns exactly the keys and columns of the table analytics_<name>, with each key once."""

    name: str
    of: FrameShape
    keys: tuple[str, ...]
    columns: Mapping[str, MergeRule]
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
        buyers.buyers,
    ),
    Measure(
        "latency",
        "step",
        ("sale_id", "stage", "bucket"),
        {"events": "add", "most_ms": "most"},
        timing.latency,
    ),
    Measure("fairness", "step", ("sale_id", "sku", "came_ms"), {"granted": "add", "refused": "add"}, buyers.fairness),
)
