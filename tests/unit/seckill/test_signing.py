"""Our HMAC is everybody's HMAC."""

from __future__ import annotations

import hmac

from hypothesis import given
from hypothesis import strategies as st

from seckill.signing import hmac_sha256


@given(key=st.binary(max_size=200), message=st.binary(max_size=300))
def test_it_is_the_hmac_of_the_standard_library(key: bytes, message: bytes) -> None:
    assert hmac_sha256(key, message) == hmac.digest(key, message, "sha256")


def test_a_key_is_not_used_up() -> None:
    assert hmac_sha256(b"key", b"one") == hmac_sha256(b"key", b"one") != hmac_sha256(b"key", b"two")
