"""Codec of identifiers, and their types: offsets, epochs, brokers, topics and partitions."""

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
NO_TOPIC_ID = UUID(int=0)

METADATA_TOPIC = "__cluster_metadata"
"""The log that the cluster image is built from. It is not a topic of the image."""

METADATA_ID = UUID("00000000-0000-0000-0000-000000000001")
"""Kafka's well-known id of that topic."""

OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})
"""Topics that belong to brokers. Clients can neither create, delete nor produce to them."""


class TopicPartition(NamedTuple):
    """A partition by the name of its topic. Its text is also the name of its folder on disk."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition by the id of its topic. A topic that is created again under the same name has another id."""

    topic_id: UUID
    partition: int


def kafka_uuid(identity: UUID) -> str:
    """A UUID in Kafka's notation of 22 characters."""
    return base64.urlsafe_b64encode(identity.bytes).rstrip(b"=").decode()


def parse_kafka_uuid(text: str) -> UUID:
    """Raises ValueError if the text is not a UUID in Kafka's notation."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
