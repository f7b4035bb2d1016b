"""A request body must be a small JSON object."""

from __future__ import annotations

import pytest
from django.test import Client

from gateway.http import BODY_BYTES_MAX

BRACKETS = b"[" * 4000


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b'{"user": "ann"}', 201, None),
        (b'{"user": "ann", "more": "' + b"x" * BODY_BYTES_MAX + b'"}', 413, "/problems/body-too-large"),
        (b'{"user": "ann"', 400, "/problems/bad-json"),
        (b'["ann"]', 400, "/problems/bad-json"),
        (b"\xff\xfe", 400, "/problems/bad-json"),
        (BRACKETS, 400, "/problems/bad-json"),
        (b"", 400, "/problems/bad-user"),
    ],
)
def test_a_body_that_is_not_a_small_json_object_is_refused(body: bytes, status: int, kind: str | None) -> None:
    answer = Client().post("/api/v1/sessions", body, content_type="application/json")
    assert (answer.status_code, answer.json().get("type")) == (status, kind)


def test_a_chunked_body_is_refused_instead_of_being_read_as_empty() -> None:
    """An empty body means one unit, so a client that orders two in chunks would get one."""
    answer = Client().post("/api/v1/sessions", b"", content_type="application/json", HTTP_TRANSFER_ENCODING="chunked")
    assert (answer.status_code, answer.json()["type"]) == (411, "/problems/length-required")
