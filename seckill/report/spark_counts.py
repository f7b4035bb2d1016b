"""Values: the rows of Spark's tables that the report compares with the topics and the database."""

from __future__ import annotations

from typing import NamedTuple


class SparkCount(NamedTuple):
    """Distinct events of one kind (a decision or an event type) in one partition, as one run counted them."""

    run: str  # live or replay
    topic: str
    partition: int
    kind: str
    events: int
    units: int
    amount: int


class SparkCut(NamedTuple):
    """The part of a partition that the run counted: offsets from `start` up to but not including `end`."""

    run: str
    topic: str
    partition: int
    start: int
    end: int
    records: int
