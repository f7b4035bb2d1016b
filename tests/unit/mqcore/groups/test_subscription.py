"""The topics in a consumer's subscription, parsed from bytes of real clients."""

from __future__ import annotations

from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from hypothesis import given
from hypothesis import strategies as st

from mqcore.groups.subscription import parse_topics, same_topics
from tests.unit.mqcore.groups.group_driver import subscription


def test_topics_are_parsed_from_a_subscription_of_aiokafka() -> None:
    sent: bytes = ConsumerProtocolMemberMetadata(0, ["orders", "payments"], b"user data").encode()
    assert parse_topics(sent) == frozenset({"orders", "payments"})


def test_fields_that_later_versions_add_are_ignored() -> None:
    assert parse_topics(b"\x00\x03" + subscription("orders")[2:] + b"owned, generation, rack") == frozenset({"orders"})


def test_metadata_of_other_protocols_has_no_topics() -> None:
    assert parse_topics(b"") is None
    assert parse_topics(b"\xff\xff" + bytes(8)) is None


@given(st.binary(max_size=60))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    parse_topics(data)


def test_subscriptions_are_compared_by_their_topics() -> None:
    assert same_topics(subscription("a", "b"), subscription("b", "a", user_data=b"x"))
    assert not same_topics(subscription("a"), subscription("b"))
    assert same_topics(b"connect", b"connect")
    assert not same_topics(b"connect", b"connected")
