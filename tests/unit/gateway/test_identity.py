"""The id of a request follows from user, sale and key."""

from __future__ import annotations

from uuid import RFC_4122

from hypothesis import given
from hypothesis import strategies as st

from gateway.identity import derive_request_id

TEXT = st.text(min_size=1, max_size=10)


def test_a_request_id_is_a_uuid_of_version_8() -> None:
    made = derive_request_id("secret", "ann", 1, "key")
    assert (made.version, made.variant) == (8, RFC_4122)


@given(TEXT, st.integers(0, 10), TEXT, TEXT, st.integers(0, 10), TEXT)
def test_two_calls_have_the_same_id_only_if_user_sale_and_key_are_equal(
    user: str, sale: int, key: str, user2: str, sale2: int, key2: str
) -> None:
    first, second = derive_request_id("secret", user, sale, key), derive_request_id("secret", user2, sale2, key2)
    assert (first == second) == ((user, sale, key) == (user2, sale2, key2))


def test_a_request_id_depends_on_the_secret() -> None:
    assert derive_request_id("secret", "ann", 1, "key") != derive_request_id("guess", "ann", 1, "key")
