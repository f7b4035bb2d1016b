"""Values: a record as handlers see it, what a handler is, and what its failures mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol, runtime_checkable

from seckill.envelope import BadEnvelope, Envelope, Origin, decode
from seckill.topics import Topic


class Permanent(Exception):
    """This one record will never be worked on, however often it is tried."""


class Received(NamedTuple):
    """One record, decoded."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str
    envelope: Envelope
    headers: Mapping[str, str] = {}

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
    records: Sequence[Received] = field(default=())


class Handler(Protocol):
    """A reader of topics. `handle` runs inside one transaction, together with the offsets: all of it or nothing.

    Raise `Permanent` for what no retry repairs; a database or Redis that is away is taken for passing and tried again
    for ever; anything else is tried a few times, then the one record at fault is a dead letter.
    A handler must be able to see a record twice and have its effect once (its own unique keys see to that).
    """

    @property
    def group(self) -> str: ...

    @property
    def topics(self) -> tuple[Topic, ...]: ...

    def handle(self, batch: Batch) -> None: ...


@runtime_checkable
class Discards(Protocol):
    """A handler for which a dead letter that is given up has a meaning (inventory decides INVALID)."""

    def discard(self, batch: Batch) -> None: ...


@runtime_checkable
class Buries(Protocol):
    """A handler that has something to give back when a record becomes a dead letter (inventory: a grant)."""

    def bury(self, batch: Batch) -> None:
        """In the transaction of the letter. What it raises undoes its own changes only."""


@runtime_checkable
class Prefers(Protocol):
    """A handler of several topics, one of which goes first while there is something in it."""

    @property
    def first(self) -> Topic: ...


@runtime_checkable
class TakesMany(Protocol):
    """A handler that works on a whole batch at once, so that a larger one costs less for each record."""

    @property
    def most_records(self) -> int: ...


def identity(record: Any) -> str:
    """Tells a record of kafka-python's from any other that may stand at the same offset, in another life of the log."""
    digest = blake2b(digest_size=16)
    parts = [str(record.offset).encode(), str(record.timestamp).encode(), record.key, record.value]
    for name, value in record.headers:
        parts += [name.encode(), value]
    for part in parts:
        digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return digest.hexdigest()


def received(record: Any) -> Received:
    """From kafka-python's record; `Permanent` if it is no message of ours."""
    try:
        envelope = decode(record.value)
        key = (record.key or b"").decode()
    except (BadEnvelope, UnicodeDecodeError) as bad:
        raise Permanent(str(bad)) from bad
    headers = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
    return Received(record.topic, record.partition, record.offset, record.timestamp, key, envelope, headers)
