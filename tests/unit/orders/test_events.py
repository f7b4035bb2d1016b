"""Order events of older versions are converted; newer versions are refused."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from orders import events
from orders.events import OrderChanged, OrderEvent
from seckill.messaging.envelope import BadEnvelope, Envelope, decode_envelope


def refunded(returned_units: int) -> Envelope:
    changed = OrderChanged(OrderEvent.REFUNDED, uuid4(), uuid4(), "ann", 1, "phone", 2, 200, 5, 9, returned_units)
    return changed.envelope(None, None)


def as_version_1(envelope: Envelope, **more: Any) -> Envelope:
    """The same event as a writer of version 1 encodes it."""
    body = {name: value for name, value in envelope.body.items() if name != "returned_units"}
    return envelope._replace(version=1, body=body | more)


@pytest.mark.parametrize(("return_units", "returned_units"), [(True, 2), (False, 0)])
def test_an_event_of_version_1_is_converted_without_loss(return_units: bool, returned_units: int) -> None:
    envelope = refunded(returned_units)
    assert events.parse_event(as_version_1(envelope, return_units=return_units)) == events.parse_event(envelope)


def test_an_event_of_version_1_without_return_units_returns_none() -> None:
    assert events.parse_event(as_version_1(refunded(0))).returned_units == 0


@pytest.mark.parametrize("version", [0, -1, events.VERSION + 1])
def test_an_unknown_version_is_refused(version: int) -> None:
    with pytest.raises(BadEnvelope, match=f"version {version} is not supported"):
        events.parse_event(refunded(0)._replace(version=version))


def test_an_unknown_field_of_the_same_version_is_ignored() -> None:
    envelope = refunded(2)
    newer = envelope._replace(body={**envelope.body, "currency": "CNY"})
    assert events.parse_event(newer) == events.parse_event(envelope)


def test_each_older_version_has_an_upcaster() -> None:
    assert sorted(events.UPCASTERS) == list(range(1, events.VERSION))


def test_an_old_body_without_a_field_that_its_upcaster_needs_is_a_bad_envelope() -> None:
    with pytest.raises(BadEnvelope, match="cannot be converted to 2"):
        events.parse_event(Envelope(uuid4(), "OrderRefunded", 1, {"return_units": True}))


def test_an_event_survives_encoding_and_decoding() -> None:
    envelope = refunded(2)
    assert events.parse_event(decode_envelope(envelope.encode())) == events.parse_event(envelope)
