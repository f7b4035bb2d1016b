"""Old and new schema versions of order events, side by side."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from orders import events
from orders.events import OrderChanged, OrderEvent
from seckill import envelope as envelopes
from seckill.envelope import BadEnvelope, Envelope


def refunded(returned_units: int) -> Envelope:
    said = OrderChanged(OrderEvent.REFUNDED, uuid4(), uuid4(), "ann", 1, "phone", 2, 200, 5, 9, returned_units)
    return said.envelope(None, None)


def as_version_1(now: Envelope, **more: Any) -> Envelope:
    """What a writer of the first version would have said."""
    body = {name: value for name, value in now.body.items() if name != "returned_units"}
    return now._replace(version=1, body=body | more)


@pytest.mark.parametrize(("return_units", "returned_units"), [(True, 2), (False, 0)])
def test_a_message_of_version_1_means_what_it_meant(return_units: bool, returned_units: int) -> None:
    now = refunded(returned_units)
    assert events.read(as_version_1(now, return_units=return_units)) == events.read(now)


def test_version_1_could_leave_out_what_was_not_a_refund() -> None:
    assert events.read(as_version_1(refunded(0))).returned_units == 0


@pytest.mark.parametrize("version", [0, -1, events.VERSION + 1])
def test_a_version_that_nobody_knows_is_refused_and_not_guessed(version: int) -> None:
    with pytest.raises(BadEnvelope, match=f"{version}: known are"):
        events.read(refunded(0)._replace(version=version))


def test_every_version_before_the_newest_has_a_way_to_the_next() -> None:
    assert sorted(events.UPCASTERS) == list(range(1, events.VERSION))


def test_an_old_body_that_lacks_what_the_way_needs_is_a_bad_envelope() -> None:
    body = {"return_units": True}
    with pytest.raises(BadEnvelope, match="cannot be read as 2"):
        envelopes.current(Envelope(uuid4(), "OrderRefunded", 1, body), 2, events.UPCASTERS)


def test_what_is_said_survives_the_wire() -> None:
    now = refunded(2)
    assert events.read(envelopes.decode(now.encode())) == events.read(now)
