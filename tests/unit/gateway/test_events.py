"""A purchase request that no database could keep is refused when it is read, not by each try to decide it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from gateway.events import PurchaseRequested, read
from seckill.envelope import BadEnvelope, Envelope, decode


def requested(**different: Any) -> Envelope:
    request_id = uuid4()
    whole = PurchaseRequested(request_id, "anna", 1, "phone", 1, 1000, 2000).envelope()
    return Envelope(request_id, whole.type, whole.version, {**whole.body, **different})


def test_a_whole_request_is_read_as_it_was_written() -> None:
    envelope = requested()
    assert read(decode(envelope.encode())).envelope() == envelope


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
def test_what_cannot_be_kept_is_refused(field: str, value: object) -> None:
    with pytest.raises(BadEnvelope):
        read(requested(**{field: value}))
