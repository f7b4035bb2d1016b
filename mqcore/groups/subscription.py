"""Codec: the topics in a consumer's subscription (Kafka's ConsumerProtocolSubscription, any version).

The broker reads members' metadata for one question only: may the offsets of a topic be deleted. Members of other
protocols (Connect, Schema Registry) have no such topics.
"""

from __future__ import annotations

from mqcore.wire.frames import BadFrame
from mqcore.wire.primitives import Reader

CONSUMER = "consumer"


def topics_of(subscription: bytes) -> frozenset[str] | None:
    """None if these are no subscription's bytes. Later versions only add fields behind the topics."""
    try:
        reader = Reader(subscription)
        if reader.int16() < 0:
            return None
        return frozenset(reader.array(reader.string, 2))
    except BadFrame:
        return None


def same_topics(one: bytes, other: bytes) -> bool:
    """Equal bytes, or equal topics in them (what else changes is user data: what was owned before the restart)."""
    if one == other:
        return True
    topics = topics_of(one)
    return topics is not None and topics == topics_of(other)
