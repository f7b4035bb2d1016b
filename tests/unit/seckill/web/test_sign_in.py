"""Who a buyer is: any name in development, and nobody by that way elsewhere; a shop's own view; tokens that end."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.test import Client

from seckill import tokens
from seckill.pages import COOKIE, remember


def own(request: HttpRequest) -> HttpResponse:
    """A shop's own, for the tests."""
    if request.GET.get("code") != "right":
        return HttpResponse("who are you?", status=403)
    response = HttpResponseRedirect("/")
    remember(response, "ann")
    return response


@pytest.fixture
def production(settings: Any) -> Any:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, development=False)
    return settings


def test_in_development_any_name_is_accepted(client: Client) -> None:
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


def test_a_shop_signs_its_buyers_in_by_a_view_of_its_own(production: Any, client: Client) -> None:
    production.ENVIRONMENT = replace(production.ENVIRONMENT, sign_in=f"{__name__}.own")
    assert client.get("/shop/sign-in").status_code == 403
    answer = client.get("/shop/sign-in?code=right")
    assert tokens.read(answer.cookies[COOKIE].value) == "ann"
    assert client.post("/api/v1/sessions", {"user": "eve"}, content_type="application/json").status_code == 404


def test_a_token_ends_when_its_life_is_over(settings: Any) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, token_life_s=100)
    now_s = time.time()
    assert tokens.read(tokens.issue("ann", now_s)) == "ann"
    assert tokens.read(tokens.issue("ann", now_s - 101)) is None


def test_all_tokens_of_before_a_moment_can_be_revoked_and_later_ones_are_good(settings: Any) -> None:
    now_s = time.time()
    before, after = tokens.issue("ann", now_s - 60), tokens.issue("ann", now_s)
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, tokens_valid_from_s=int(now_s - 30))
    assert (tokens.read(before), tokens.read(after)) == (None, "ann")
