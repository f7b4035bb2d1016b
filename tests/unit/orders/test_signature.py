"""The signature of a callback."""

from __future__ import annotations

from orders.payments import signature


def test_a_callback_is_genuine_only_with_this_secret_this_body_and_this_time() -> None:
    header = signature.sign("secret", b"body", 1000)
    assert signature.is_genuine("secret", b"body", header, 1000 + 300)
    assert not signature.is_genuine("secret", b"body", header, 1000 + 301)
    assert not signature.is_genuine("secret", b"other", header, 1000)
    assert not signature.is_genuine("other", b"body", header, 1000)
    for damaged in ("", "t=,v1=", "v1=abc", header.replace("t=", "t=x"), header[:-1]):
        assert not signature.is_genuine("secret", b"body", damaged, 1000)
