"""What all pages have in common: words for every refusal, headers, where a visitor may be sent, production settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client, RequestFactory
from django.utils.translation import gettext

from gateway.api.paths import ADMISSION, SALE
from gateway.api.problems import PROBLEMS
from seckill import tokens
from seckill.pages import COOKIE, within
from seckill.words import WORDS, of_problem

ROOT = Path(__file__).parents[3]
ORDERS = ("no-such-order", "nothing-to-pay", "not-cancellable", "provider-unavailable", "database-unavailable")
NEVER_ON_A_PAGE = {"bad-idempotency-key"}  # the page makes it
PRODUCTION = {
    "SECKILL_SECRET_KEY": "0123456789-abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "SECKILL_PROVIDER_SECRET": "another-one-abcdefghijklmnopqrstuvwxyz",
    "SECKILL_ALLOWED_HOSTS": "shop.example",
    "SECKILL_PUBLIC_URL": "https://shop.example",
}


def test_every_refusal_that_a_page_may_meet_has_words() -> None:
    met = {*ADMISSION, *SALE, *ORDERS, "bad-user", "no-such-purchase", "no-such-address", "internal"} - NEVER_ON_A_PAGE
    assert met - set(WORDS) == set()


def test_words_are_for_refusals_that_there_are() -> None:
    assert set(WORDS) - set(PROBLEMS) == {"form-not-ours", "not-permitted"}


def test_a_refusal_without_words_is_our_fault_not_the_visitors() -> None:
    assert of_problem("nobody-has-heard-of-it") == of_problem("internal")


@pytest.mark.parametrize(
    ("address", "led_to"),
    [
        ("/orders?x=1", "/orders?x=1"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
    ],
)
def test_a_visitor_is_sent_to_pages_of_ours_only(rf: RequestFactory, address: str, led_to: str) -> None:
    assert within(rf.get("/"), address) == led_to


def test_signing_in_keeps_the_same_token_that_a_program_has(client: Client) -> None:
    answer = client.post("/shop/sign-in", {"user": "ann", "next": "/orders"})
    assert (answer.status_code, answer["Location"]) == (303, "/orders")
    cookie = answer.cookies[COOKIE]
    assert tokens.read(cookie.value) == "ann"
    assert cookie["httponly"] and cookie["samesite"] == "Lax"


def test_a_name_that_cannot_be_used_is_told_so_and_stands_there_to_be_mended(client: Client) -> None:
    answer = client.post("/shop/sign-in", {"user": "<b>"})
    assert answer.status_code == 400
    assert b"This name cannot be used." in answer.content and b"&lt;b&gt;" in answer.content


def test_a_cookie_that_was_touched_signs_nobody_in(client: Client) -> None:
    client.cookies[COOKIE] = tokens.issue("ann")[:-1] + "x"
    assert client.get("/orders").status_code == 302


def test_a_form_from_elsewhere_changes_nothing() -> None:
    client = Client(enforce_csrf_checks=True)
    client.cookies[COOKIE] = tokens.issue("ann")
    for address in ("/shop/1/buy", "/shop/sign-in", f"/orders/{'0' * 8}-0000-0000-0000-{'0' * 12}/pay"):
        answer = client.post(address, {"user": "eve"})
        assert answer.status_code == 403
        assert gettext("This form was not accepted.").encode() in answer.content


def test_pages_allow_nothing_inline_and_nothing_from_elsewhere(client: Client) -> None:
    answer = client.get("/shop/sign-in")
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert answer["X-Frame-Options"] == "DENY" and answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", sorted(ROOT.glob("*/templates/**/*.html")), ids=lambda path: path.name)
def test_no_template_has_a_style_or_a_script_of_its_own(path: Path) -> None:
    text = path.read_text()
    assert "<style" not in text and " style=" not in text and "onclick" not in text
    assert "<script>" not in text


def test_an_address_that_is_not_there_is_a_page_for_people_and_a_problem_for_programs(client: Client) -> None:
    assert b"Nothing is here." in client.get("/nothing").content
    assert client.get("/api/v1/nothing")["Content-Type"] == "application/problem+json"


def deploy_check(**more: str) -> subprocess.CompletedProcess[str]:
    base = {name: value for name, value in os.environ.items() if not name.startswith("SECKILL_")}
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    return subprocess.run(command, cwd=ROOT, env=base | more, capture_output=True, text=True, timeout=60)


def test_production_settings_pass_djangos_own_check() -> None:
    checked = deploy_check(**PRODUCTION)
    assert checked.returncode == 0, checked.stderr


def test_the_check_would_find_plain_http_and_the_secret_of_development() -> None:
    checked = deploy_check()
    assert checked.returncode != 0
    for finding in ("security.W010", "security.W016", "security.W009"):
        assert finding in checked.stderr


def test_the_api_pays_for_no_session(client: Client) -> None:
    for address, has_session in (("/api/v1/nothing", False), ("/nothing", True)):
        request = client.get(address).wsgi_request
        assert hasattr(request, "session") is has_session
        assert hasattr(request, "user") is has_session


def test_a_method_that_the_api_has_not_is_no_forgery_and_a_form_without_our_token_is() -> None:
    strict = Client(enforce_csrf_checks=True)
    assert strict.post("/api/v1/sales").status_code == 405
    assert strict.post("/shop/sign-in", {"user": "ann"}).status_code == 403
