"""Codec: the topics in a consumer's subscription (Kafka's ConsumerProtocolSubscription, any version).

The broker parses the metadata of members for one purpose: to know whether the offsets of a topic may be deleted.
Members of other protocol types, such as Kafka Connect, have no subscription in this format.
"""

from __future__ import annotations

from mqcore.wire.frames import BadFrame
from mqcore.wire.primitives import Reader

CONSUMER = "consumer"


def parse_topics(subscription: bytes) -> frozenset[str] | None:
    """None if the bytes are not a subscription. Later versions only add fields after the topics."""
    try:
        reader = Reader(subscription)
        if reader.int16() < 0:
            return None
        return frozenset(reader.array(reader.string, 2))
    except BadFrame:
        return None


def same_topics(one: bytes, other: bytes) -> bool:
    """Whether two subscriptions name the same topics. The rest is user data, such as the partitions owned before."""
    if one == other:
        return True
    topics = parse_topics(one)
    return topics is not None and topics == parse_topics(other)
