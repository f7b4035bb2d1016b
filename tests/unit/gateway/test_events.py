"""A purchase request with values that Postgres cannot store is refused when it is parsed."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from gateway.events import PurchaseRequested, parse_purchase_request
from seckill.messaging.envelope import BadEnvelope, Envelope, decode_envelope


def requested(**different: Any) -> Envelope:
    request_id = uuid4()
    whole = PurchaseRequested(request_id, "anna", 1, "phone", 1, 1000, 2000).envelope()
    return Envelope(request_id, whole.type, whole.version, {**whole.body, **different})


def test_a_request_survives_encoding_and_parsing() -> None:
    envelope = requested()
    assert parse_purchase_request(decode_envelope(envelope.encode())).envelope() == envelope


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("deadline_ms", 10**19),
        ("deadline_ms", -1),
        ("admitted_at_ms", 2**63),
        ("admitted_at_ms", 10**16),
        ("sale_id", 2**63),
        ("sale_id", -(10**30)),
        ("sale_id", True),
        ("quantity", 2**31),
        ("quantity", -(2**40)),
        ("quantity", 1.0),
        ("sku", "x" * 101),
        ("sku", "a\0b"),
        ("user_id", "\ud800"),
        ("user_id", "x" * 201),
        ("user_id", ""),
    ],
)
def test_a_value_that_the_database_cannot_store_is_refused(field: str, value: object) -> None:
    with pytest.raises(BadEnvelope):
        parse_purchase_request(requested(**{field: value}))
