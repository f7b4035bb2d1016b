"""Requests with oversized headers are refused before anything is parsed."""

from __future__ import annotations

import http.cookies

import pytest
from django.test import Client

from seckill.web.request_limits import (
    ADDRESS_BYTES_MAX,
    COOKIE_BYTES_MAX,
    ESCAPED_COOKIE_BYTES_MAX,
    HEADER_BYTES_MAX,
    header_problem,
)

ESCAPED = '\\"'


def status(*headers: tuple[str, str]) -> int | None:
    problem = header_problem(headers)
    return None if problem is None else problem.status


def test_cookies_are_limited_in_total_over_all_their_headers() -> None:
    assert status(("cookie", "a" * COOKIE_BYTES_MAX)) is None
    assert status(("cookie", "a" * (COOKIE_BYTES_MAX + 1))) == 431
    half = ("cookie", "a" * (COOKIE_BYTES_MAX // 2))
    assert status(half, half) is None
    assert status(half, half, ("cookie", "a")) == 431


def test_headers_are_limited_in_total_including_their_names() -> None:
    assert status(("x-a", "v" * (HEADER_BYTES_MAX - 3))) is None
    assert status(("x-a", "v" * (HEADER_BYTES_MAX - 2))) == 431
    assert status(*[("x-" + "n" * 98, "v")] * 200) == 431


def test_a_cookie_with_escapes_has_a_lower_limit() -> None:
    short = 'a="' + ESCAPED * 100 + '"'
    assert len(short) < ESCAPED_COOKIE_BYTES_MAX and status(("cookie", short)) is None
    assert status(("cookie", 'a="' + ESCAPED * ESCAPED_COOKIE_BYTES_MAX + '"')) == 431
    assert status(("cookie", "b=\\1"), ("cookie", "a" * ESCAPED_COOKIE_BYTES_MAX)) == 431


def test_a_websocket_is_refused_and_another_upgrade_is_ignored() -> None:
    assert status(("upgrade", "WebSocket")) == 400
    assert status(("upgrade", "h2c")) is None


def test_a_header_that_is_not_ascii_is_refused() -> None:
    assert status(("x-forwarded-for", "1.2.3.4\xff")) == 400
    assert status(("x-forwarded-for", "1.2.3.4")) is None


def test_an_address_is_limited_in_length(client: Client) -> None:
    longest = "/api/v1/nothing?" + "q" * (ADDRESS_BYTES_MAX - len("/api/v1/nothing"))
    assert client.get(longest).status_code == 404
    for address in (longest + "q", "/api/v1/" + "9" * ADDRESS_BYTES_MAX):
        answer = client.get(address)
        assert (answer.status_code, answer.json()["type"]) == (414, "/problems/address-too-long")


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/nothing"])
def test_django_never_unquotes_a_long_cookie(path: str, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    unquoted: list[str] = []
    unquote = http.cookies._unquote

    def record_unquote(text: str) -> str:
        unquoted.append(text)
        return str(unquote(text))

    monkeypatch.setattr(http.cookies, "_unquote", record_unquote)
    cookie = 'a="' + ESCAPED * 2000 + '"'
    answer = client.get(path, headers={"Cookie": cookie})
    assert (answer.status_code, answer.json()["type"]) == (431, "/problems/headers-too-large")
    assert not unquoted
    client.get(path, headers={"Cookie": 'a="' + ESCAPED + '"'})
    assert unquoted, "the control: a short cookie is parsed"
