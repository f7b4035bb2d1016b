"""The signature of a callback: the provider's is good for five minutes; whatever else comes is refused, not a crash."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orders.payments.signature import TOLERANCE_S, is_genuine, sign

NOW_S = 1_000_000


def test_the_providers_own_is_genuine_for_a_while() -> None:
    header = sign("secret", b"body", NOW_S)
    assert is_genuine("secret", b"body", header, NOW_S + TOLERANCE_S)
    assert not is_genuine("secret", b"body", header, NOW_S + TOLERANCE_S + 1)
    assert not is_genuine("secret", b"other", header, NOW_S)
    assert not is_genuine("guess", b"body", header, NOW_S)


@pytest.mark.parametrize("header", ["", "t=", "t=²,v1=x", f"t={NOW_S},v1=é", "t=" + "9" * 5000, f"t={NOW_S}", "v1=x"])
def test_what_makes_no_sense_is_refused(header: str) -> None:
    assert not is_genuine("secret", b"body", header, NOW_S)


@given(st.text())
def test_what_strangers_make_up_is_refused(header: str) -> None:
    assert not is_genuine("secret", b"body", header, NOW_S)
