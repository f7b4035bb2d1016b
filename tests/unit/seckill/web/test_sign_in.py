"""Sign-in: any name in development, a custom view elsewhere; and the end of tokens."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.test import Client

from seckill.web import tokens
from seckill.web.pages import COOKIE, set_buyer_cookie


def custom_sign_in(request: HttpRequest) -> HttpResponse:
    """A shop's own view, named by SECKILL_SIGN_IN."""
    if request.GET.get("code") != "right":
        return HttpResponse("not signed in", status=403)
    response = HttpResponseRedirect("/")
    set_buyer_cookie(response, "ann")
    return response


@pytest.fixture
def production(settings: Any) -> Any:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, development=False)
    return settings


def test_in_development_any_name_can_sign_in(client: Client) -> None:
    assert client.get("/shop/sign-in").status_code == 200
    assert client.post("/shop/sign-in", {"user": "ann"}).status_code == 303
    assert client.post("/api/v1/sessions", {"user": "ann"}, content_type="application/json").status_code == 201


@pytest.mark.usefixtures("production")
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT", "OPTIONS"])
@pytest.mark.parametrize("path", ["/shop/sign-in", "/api/v1/sessions"])
def test_outside_development_the_demo_sign_in_does_not_exist(path: str, method: str, client: Client) -> None:
    answer = client.generic(method, path, b'{"user": "ann"}', content_type="application/json")
    assert answer.status_code == 404
    assert COOKIE not in answer.cookies and b'"token"' not in answer.content


def test_a_custom_view_replaces_the_demo_sign_in(production: Any, client: Client) -> None:
    production.ENVIRONMENT = replace(production.ENVIRONMENT, sign_in=f"{__name__}.custom_sign_in")
    assert client.get("/shop/sign-in").status_code == 403
    answer = client.get("/shop/sign-in?code=right")
    assert tokens.verify_token(answer.cookies[COOKIE].value) == "ann"
    assert client.post("/api/v1/sessions", {"user": "eve"}, content_type="application/json").status_code == 404


def test_a_token_expires_after_its_configured_life(settings: Any) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, token_life_s=100)
    now_s = time.time()
    assert tokens.verify_token(tokens.issue_token("ann", now_s)) == "ann"
    assert tokens.verify_token(tokens.issue_token("ann", now_s - 101)) is None


def test_tokens_issued_before_a_moment_can_be_revoked(settings: Any) -> None:
    now_s = time.time()
    before, after = tokens.issue_token("ann", now_s - 60), tokens.issue_token("ann", now_s)
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, tokens_valid_from_s=int(now_s - 30))
    assert (tokens.verify_token(before), tokens.verify_token(after)) == (None, "ann")
