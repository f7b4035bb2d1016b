"""X-Forwarded-Proto counts only from trusted proxies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from seckill.web.forwarded import trust_proxies_only


@pytest.mark.parametrize(("peer", "is_secure"), [("10.0.0.7", True), ("9.9.9.9", False), ("", False)])
def test_only_a_trusted_proxy_can_mark_a_request_as_tls(
    peer: str, is_secure: bool, settings: Any, rf: RequestFactory
) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, trusted_proxies="10.0.0.7")
    seen: list[bool] = []

    def view(request: HttpRequest) -> HttpResponse:
        seen.append(request.is_secure())
        return HttpResponse()

    trust_proxies_only(view)(rf.get("/", REMOTE_ADDR=peer, headers={"X-Forwarded-Proto": "https"}))
    assert seen == [is_secure]


def test_the_middleware_is_left_out_without_tls(settings: Any) -> None:
    settings.SECURE_PROXY_SSL_HEADER = None
    with pytest.raises(MiddlewareNotUsed):
        trust_proxies_only(lambda _: HttpResponse())
