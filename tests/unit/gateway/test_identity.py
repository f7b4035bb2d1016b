"""Who asks for what under which key: the identity of a request."""

from __future__ import annotations

from uuid import RFC_4122

from hypothesis import given
from hypothesis import strategies as st

from gateway.identity import request_id

TEXT = st.text(min_size=1, max_size=10)


def test_it_is_a_uuid_of_version_8() -> None:
    made = request_id("secret", "ann", 1, "key")
    assert (made.version, made.variant) == (8, RFC_4122)


@given(TEXT, st.integers(0, 10), TEXT, TEXT, st.integers(0, 10), TEXT)
def test_the_same_call_is_the_same_request_and_no_other_call_is(
    user: str, sale: int, key: str, user2: str, sale2: int, key2: str
) -> None:
    first, second = request_id("secret", user, sale, key), request_id("secret", user2, sale2, key2)
    assert (first == second) == ((user, sale, key) == (user2, sale2, key2))


def test_nobody_computes_it_without_the_secret() -> None:
    assert request_id("secret", "ann", 1, "key") != request_id("guess", "ann", 1, "key")
