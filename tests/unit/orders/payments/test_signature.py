"""The signature of a callback is valid for five minutes. Any other header is refused without an exception."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orders.payments.signature import AGE_SECONDS_MAX, is_genuine, sign

NOW_S = 1_000_000
HEADER = sign("secret", b"body", NOW_S)


@pytest.mark.parametrize("age_s", [-AGE_SECONDS_MAX, 0, AGE_SECONDS_MAX])
def test_a_signature_is_genuine_within_five_minutes_of_its_time(age_s: int) -> None:
    assert is_genuine("secret", b"body", HEADER, NOW_S + age_s)


@pytest.mark.parametrize("age_s", [-AGE_SECONDS_MAX - 1, AGE_SECONDS_MAX + 1])
def test_an_older_or_future_signature_is_refused(age_s: int) -> None:
    assert not is_genuine("secret", b"body", HEADER, NOW_S + age_s)


def test_a_signature_of_another_body_or_secret_is_refused() -> None:
    assert not is_genuine("secret", b"other", HEADER, NOW_S)
    assert not is_genuine("guess", b"body", HEADER, NOW_S)


@pytest.mark.parametrize(
    "header",
    [
        "", "t=", "t=,v1=", "t=²,v1=x", f"t={NOW_S},v1=é", "t=" + "9" * 5000, f"t={NOW_S}", "v1=x",
        HEADER.replace("t=", "t=x"), HEADER[:-1],
    ],
)  # fmt: skip
def test_a_malformed_header_is_refused(header: str) -> None:
    assert not is_genuine("secret", b"body", header, NOW_S)


@given(st.text())
def test_any_text_as_header_is_refused(header: str) -> None:
    assert not is_genuine("secret", b"body", header, NOW_S)
