"""What is sent along: small, JSON, an object; anything else is refused before it is looked at."""

from __future__ import annotations

import pytest
from django.test import Client

from gateway.views import MOST_BODY

BRACKETS = b"[" * 4000


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b'{"user": "ann"}', 201, None),
        (b'{"user": "ann", "more": "' + b"x" * MOST_BODY + b'"}', 413, "/problems/body-too-large"),
        (b'{"user": "ann"', 400, "/problems/bad-json"),
        (b'["ann"]', 400, "/problems/bad-json"),
        (b"\xff\xfe", 400, "/problems/bad-json"),
        (BRACKETS, 400, "/problems/bad-json"),
        (b"", 400, "/problems/bad-user"),
    ],
)
def test_a_body_is_a_small_object_or_refused(body: bytes, status: int, kind: str | None) -> None:
    answer = Client().post("/api/v1/sessions", body, content_type="application/json")
    assert (answer.status_code, answer.json().get("type")) == (status, kind)


def test_a_body_in_chunks_is_refused_and_not_taken_for_an_empty_one() -> None:
    """Whoever orders two that way would be given one."""
    answer = Client().post("/api/v1/sessions", b"", content_type="application/json", HTTP_TRANSFER_ENCODING="chunked")
    assert (answer.status_code, answer.json()["type"]) == (411, "/problems/length-required")
