"""Values: S, the rows of Spark's tables that the books are compared with."""

from __future__ import annotations

from typing import NamedTuple


class Counted(NamedTuple):
    """Distinct events of one kind (a decision, or the type of an event) in one partition, as one run counted them."""

    run: str  # live, replay
    topic: str
    partition: int
    kind: str
    events: int
    units: int
    amount: int


class CountedTo(NamedTuple):
    """What of a partition that run has looked at: offsets from `start` up to but not including `end`."""

    run: str
    topic: str
    partition: int
    start: int
    end: int
    records: int
