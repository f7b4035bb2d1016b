"""The interface of handlers: decoded records, batches, optional capabilities, and what failures mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol, runtime_checkable

from seckill.messaging.envelope import BadEnvelope, Envelope, decode_envelope
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.topics import Topic

CRASHED = "the process crashed"
"""The beginning of a dead letter's reason if its record has crashed every consumer that read it."""


class PermanentFailure(Exception):
    """No retry will ever process this record."""


class TransientFailure(Exception):
    """The batch lost against another transaction. The consume loop runs it again."""


class ReceivedRecord(NamedTuple):
    """One record, decoded."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str
    envelope: Envelope
    headers: Mapping[str, str] = {}

    @property
    def position(self) -> RecordPosition:
        return RecordPosition(self.topic, self.partition, self.offset)


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one partition, in order. `cluster_id` and `topic_id` identify the log, because a topic may be
    recreated under the same name."""

    cluster_id: str
    topic_id: str
    topic: str
    partition: int
    records: Sequence[ReceivedRecord] = field(default=())


class Handler(Protocol):
    """A reader of topics. `handle` and the offset update are one transaction.

    Raise `PermanentFailure` if no retry can help. Faults of the database, Redis or the broker count as transient and
    are retried without limit. Any other exception is retried a few times; then the failing record becomes a dead
    letter. A record may be delivered twice, so a handler's unique keys must make the second delivery harmless.
    """

    @property
    def group(self) -> str: ...

    @property
    def topics(self) -> tuple[Topic, ...]: ...

    def handle(self, batch: Batch) -> None: ...


@runtime_checkable
class HandlesDiscards(Protocol):
    """A handler that reacts when an operator discards a dead letter (inventory: the request is INVALID)."""

    def on_discard(self, batch: Batch) -> None: ...


@runtime_checkable
class HandlesDeadLetters(Protocol):
    """A handler that releases something when a record becomes a dead letter (inventory: a grant)."""

    def on_dead_letter(self, batch: Batch) -> None:
        """Called in the letter's transaction. An exception rolls back only the changes made here."""


@runtime_checkable
class PrioritizesTopic(Protocol):
    """A handler of several topics, one of which is read first while it has records."""

    @property
    def priority_topic(self) -> Topic: ...


@runtime_checkable
class TakesLargeBatches(Protocol):
    """A handler whose cost per record falls with larger batches."""

    @property
    def batch_records_max(self) -> int: ...


def record_fingerprint(record: Any) -> str:
    """A hash that identifies a kafka-python record, because after a data loss another record may have its offset."""
    digest = blake2b(digest_size=16)
    parts = [str(record.offset).encode(), str(record.timestamp).encode(), record.key, record.value]
    for name, value in record.headers:
        parts += [name.encode(), value]
    for part in parts:
        digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return digest.hexdigest()


def decode_record(record: Any) -> ReceivedRecord:
    """Decode a kafka-python record. Raises `PermanentFailure` if it is not a valid message."""
    try:
        envelope = decode_envelope(record.value)
        key = (record.key or b"").decode()
    except (BadEnvelope, UnicodeDecodeError) as bad:
        raise PermanentFailure(str(bad)) from bad
    headers = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
    return ReceivedRecord(record.topic, record.partition, record.offset, record.timestamp, key, envelope, headers)
