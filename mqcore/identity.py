"""Codec-free vocabulary: the names of things, as types. One word per thing (docs/glossary.md)."""

from __future__ import annotations

import base64
from typing import NamedTuple, NewType
from uuid import UUID

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
Millis = NewType("Millis", int)

NO_LEADER_EPOCH = LeaderEpoch(-1)
NO_PRODUCER = ProducerId(-1)
NO_TOPIC_ID = UUID(int=0)


class TopicPartition(NamedTuple):
    """One partition by the name of its topic; also the name of its folder on disk."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def kafka_uuid(identity: UUID) -> str:
    """A UUID as Kafka writes it: 22 characters."""
    return base64.urlsafe_b64encode(identity.bytes).rstrip(b"=").decode()


def parse_kafka_uuid(text: str) -> UUID:
    """ValueError if the text is none."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
