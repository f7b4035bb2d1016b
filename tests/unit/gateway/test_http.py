"""The loop's own HTTP: limits are checked before anything is read, and answers carry what Django's middleware sets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client

from gateway import http
from gateway.http import BODY_BYTES_MAX, Request, join_headers, needs_django, problem_response, read_request
from gateway.time_limit import TimeLimit
from seckill.web.problems import Problem
from tests.gateway_loop import Protocol, Scope

HOST = ("host", "testserver")


@pytest.fixture(autouse=True)
def nothing_cached() -> None:
    http.security_headers.cache_clear()
    http._is_allowed_host.cache_clear()


class Unread(Protocol):
    """A body that must not be read."""

    async def __call__(self) -> bytes:
        raise AssertionError("the body was read")


def request(*headers: tuple[str, str], protocol: Protocol | None = None, **different: Any) -> Request:
    return read_request(Scope("POST", "/api/v1/sales/1/purchases", [HOST, *headers], **different), protocol or Unread())


def refusal_of(call: Any) -> Problem:
    with pytest.raises(Problem) as refused:
        call()
    return refused.value


def test_repeated_headers_are_joined_in_order_and_names_with_an_underscore_are_dropped() -> None:
    values = [str(number) for number in range(2000)]
    joined = join_headers(
        [*(("x-many", value) for value in values), ("cookie", "a=b"), ("cookie", "c=d"), ("x_forwarded_for", "9.9.9.9")]
    )
    assert joined == {"x-many": ",".join(values), "cookie": "a=b; c=d"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("cookie", "a" * 9000)], 431),
        ([("x", "a" * 17_000)], 431),
        ([("x", "caf\u00e9")], 400),
        ([("upgrade", "websocket")], 400),
    ],
)
def test_oversized_or_unreadable_headers_are_refused(headers: list[tuple[str, str]], status: int) -> None:
    assert refusal_of(lambda: request(*headers)).status == status


def test_a_header_that_the_server_leaves_out_because_it_is_not_ascii_is_refused() -> None:
    scope = Scope("GET", "/livez", [HOST])
    scope.headers.keys = lambda: ["host", "x-forwarded-for"]
    assert refusal_of(lambda: read_request(scope, Unread())).kind == "bad-header"


def test_an_address_that_is_too_long_is_refused() -> None:
    scope = Scope("GET", "/livez", [HOST], query_string="x" * 9000)
    assert refusal_of(lambda: read_request(scope, Unread())).status == 414


@pytest.mark.parametrize(
    ("header", "status"),
    [(("transfer-encoding", "chunked"), 411), (("content-length", str(BODY_BYTES_MAX + 1)), 413)],
)
def test_a_chunked_or_large_body_is_refused_unread(header: tuple[str, str], status: int) -> None:
    assert refusal_of(lambda: asyncio.run(request(header).body())).status == status


def test_a_body_is_read_and_a_missing_one_is_empty() -> None:
    assert asyncio.run(request(("content-length", "2"), protocol=Protocol(b"{}")).body()) == b"{}"
    assert asyncio.run(request().body()) == b""


def test_a_body_that_does_not_arrive_in_time_is_refused_and_the_connection_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stalled(Protocol):
        async def __call__(self) -> bytes:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr(http, "BODY_LIMIT", TimeLimit(0.0))
    refused = refusal_of(lambda: asyncio.run(request(("content-length", "2"), protocol=Stalled()).body()))
    assert refused.status == 408
    assert ("connection", "close") in problem_response(refused).headers


def test_a_query_has_a_limited_number_of_fields() -> None:
    assert request(query_string="place=a%2Bb&x=1").query("place") == "a+b"
    assert request(query_string="").query("place") == ""
    crowded = request(query_string="&".join(f"p{number}=1" for number in range(http.QUERY_FIELDS_MAX + 1)))
    assert refusal_of(lambda: crowded.query("place")).kind == "bad-request"


# ── what Django's middleware does ────────────────────────────────────────────────────────────────


def test_answers_carry_the_security_headers_that_django_sets_on_api_responses() -> None:
    django = Client().post("/api/v1/sessions", b"{}", content_type="application/json")
    not_about_security = {"content-type", "content-length", "cache-control"}
    expected = {(name.lower(), value) for name, value in django.items() if name.lower() not in not_about_security}
    assert set(http.security_headers(is_secure=False)) == expected
    assert len(expected) >= 4


def test_over_tls_answers_carry_hsts_and_plain_http_is_left_to_djangos_redirect(settings: Any) -> None:
    settings.SECURE_HSTS_SECONDS, settings.SECURE_SSL_REDIRECT = 600, True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert ("strict-transport-security", "max-age=600") in http.security_headers(is_secure=True)
    assert needs_django(request())
    assert not needs_django(request(scheme="https"))


def test_only_a_trusted_proxy_can_say_that_a_request_came_over_tls(settings: Any) -> None:
    from dataclasses import replace

    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    said = ("x-forwarded-proto", "https")
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, trusted_proxies="")
    assert needs_django(request(said))
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, trusted_proxies="127.0.0.1")
    assert not needs_django(request(said))


@pytest.mark.parametrize(("host", "is_left_to_django"), [("testserver", False), ("evil.example", True), ("", True)])
def test_an_unknown_host_is_left_to_django_which_refuses_it(host: str, is_left_to_django: bool) -> None:
    scope = Scope("GET", "/livez", [("host", host)] if host else [])
    assert needs_django(read_request(scope, Unread())) is is_left_to_django


def test_every_middleware_has_been_considered_for_the_loops_own_routes() -> None:
    """If you add one: repeat its effect in gateway/http.py, or write here why those routes do not need it."""
    considered = {
        "seckill.web.request_limits.limit_headers": "read_request",
        "seckill.web.forwarded.trust_proxies_only": "is_secure",
        "django.middleware.security.SecurityMiddleware": "security_headers, needs_django",
        "whitenoise.middleware.WhiteNoiseMiddleware": "static files only",
        "seckill.web.content_security.content_security_policy": "pages only",
        "seckill.web.problems.api_errors_as_problems": "problem_response",
        "seckill.web.page_middleware.Sessions": "pages only",
        "seckill.web.page_middleware.Locale": "pages only",
        "seckill.web.page_middleware.Common": "needs_django checks the host",
        "django.middleware.csrf.CsrfViewMiddleware": "the API is identified by a token, not by a cookie",
        "seckill.web.page_middleware.Authentication": "pages only",
        "seckill.web.page_middleware.Messages": "pages only",
        "django.middleware.clickjacking.XFrameOptionsMiddleware": "security_headers",
    }
    assert list(considered) == django_settings.MIDDLEWARE
