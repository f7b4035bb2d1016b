"""Values: a record as handlers see it, and what a handler is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from seckill.envelope import Envelope, Origin
from seckill.topics import Topic


class Received(NamedTuple):
    """One record, decoded."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str
    envelope: Envelope

    @property
    def place(self) -> Origin:
        return Origin(self.topic, self.partition, self.offset)


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one partition, in order. `cluster_id` and `topic_id` tell this log from another of the same name."""

    cluster_id: str
    topic_id: str
    topic: str
    partition: int
    records: Sequence[Received]


class Permanent(Exception):
    """This one record will never be worked on, however often it is tried."""


class Handler(Protocol):
    """A reader of topics. `handle` runs inside one transaction, together with the offsets: all of it or nothing.

    Raise `Permanent` for what no retry repairs; any database or Redis error is taken for passing and tried again.
    A handler must be able to see a record twice and have its effect once (its own unique keys see to that).
    """

    group: str
    topics: tuple[Topic, ...]

    def handle(self, batch: Batch) -> None: ...
