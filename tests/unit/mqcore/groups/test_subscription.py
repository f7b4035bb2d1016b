"""Which topics a consumer's subscription names, seen in what real clients send."""

from __future__ import annotations

from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from hypothesis import given
from hypothesis import strategies as st

from mqcore.groups.subscription import same_topics, topics_of
from tests.unit.mqcore.groups.cast import subscription


def test_topics_are_found_in_what_aiokafka_sends() -> None:
    sent: bytes = ConsumerProtocolMemberMetadata(0, ["orders", "payments"], b"user data").encode()
    assert topics_of(sent) == frozenset({"orders", "payments"})


def test_what_later_versions_add_behind_the_topics_does_not_matter() -> None:
    assert topics_of(b"\x00\x03" + subscription("orders")[2:] + b"owned, generation, rack") == frozenset({"orders"})


def test_other_protocols_have_no_topics() -> None:
    assert topics_of(b"") is None
    assert topics_of(b"\xff\xff" + bytes(8)) is None


@given(st.binary(max_size=60))
def test_garbage_has_no_topics_or_some_but_raises_nothing(data: bytes) -> None:
    topics_of(data)


def test_subscriptions_are_compared_by_their_topics_if_they_have_any() -> None:
    assert same_topics(subscription("a", "b"), subscription("b", "a", user_data=b"x"))
    assert not same_topics(subscription("a"), subscription("b"))
    assert same_topics(b"connect", b"connect")
    assert not same_topics(b"connect", b"connected")
