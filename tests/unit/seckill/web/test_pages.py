"""What all pages share: texts for refusals, headers, redirects, the CSRF check, production settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client, RequestFactory

from gateway.api.paths import ADMISSION, SALE
from gateway.api.problems import PROBLEMS
from seckill.web import tokens
from seckill.web.pages import COOKIE, safe_redirect_target
from seckill.web.problem_texts import TEXTS, describe_problem

ROOT = Path(__file__).parents[4]
ORDERS = ("no-such-order", "nothing-to-pay", "not-cancellable", "provider-unavailable", "database-unavailable")
NEVER_ON_A_PAGE = {"bad-idempotency-key"}  # the page makes the key itself
TEMPLATES = sorted(
    path for room in ("gateway", "orders", "seckill") for path in ROOT.glob(f"{room}/templates/**/*.html")
)
PRODUCTION = {
    "SECKILL_SECRET_KEY": "0123456789-abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "SECKILL_PROVIDER_SECRET": "another-one-abcdefghijklmnopqrstuvwxyz",
    "SECKILL_ALLOWED_HOSTS": "shop.example",
    "SECKILL_PUBLIC_URL": "https://shop.example",
}


def test_every_problem_that_a_page_can_meet_has_a_text() -> None:
    met = {*ADMISSION, *SALE, *ORDERS, "bad-user", "no-such-purchase", "no-such-address", "internal"} - NEVER_ON_A_PAGE
    assert met - set(TEXTS) == set()


def test_every_text_belongs_to_a_problem_that_exists() -> None:
    assert set(TEXTS) - set(PROBLEMS) == {"form-not-ours", "not-permitted"}


def test_a_problem_without_a_text_is_shown_as_an_internal_error() -> None:
    assert describe_problem("unheard-of") == describe_problem("internal")


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("/orders?x=1", "/orders?x=1"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
    ],
)
def test_redirects_lead_to_our_own_pages_only(rf: RequestFactory, address: str, target: str) -> None:
    assert safe_redirect_target(rf.get("/"), address) == target


def test_signing_in_sets_a_cookie_with_the_token_that_programs_use(client: Client) -> None:
    answer = client.post("/shop/sign-in", {"user": "ann", "next": "/orders"})
    assert (answer.status_code, answer["Location"]) == (303, "/orders")
    cookie = answer.cookies[COOKIE]
    assert tokens.verify_token(cookie.value) == "ann"
    assert cookie["httponly"] and cookie["samesite"] == "Lax"


def test_an_invalid_name_is_refused_and_stays_in_the_form(client: Client) -> None:
    answer = client.post("/shop/sign-in", {"user": "<b>"})
    assert answer.status_code == 400
    assert b"This name cannot be used." in answer.content and b"&lt;b&gt;" in answer.content


def test_a_changed_cookie_signs_no_one_in(client: Client) -> None:
    client.cookies[COOKIE] = tokens.issue_token("ann")[:-1] + "x"
    assert client.get("/orders").status_code == 302


def test_a_form_from_another_site_is_refused() -> None:
    client = Client(enforce_csrf_checks=True)
    client.cookies[COOKIE] = tokens.issue_token("ann")
    for address in ("/shop/1/buy", "/shop/sign-in", f"/orders/{'0' * 8}-0000-0000-0000-{'0' * 12}/pay"):
        answer = client.post(address, {"user": "eve"})
        assert answer.status_code == 403
        assert b"We could not accept this form." in answer.content


def test_pages_allow_no_inline_code_and_no_foreign_content(client: Client) -> None:
    answer = client.get("/shop/sign-in")
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert answer["X-Frame-Options"] == "DENY" and answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_contains_inline_style_or_script(path: Path) -> None:
    text = path.read_text()
    assert "<style" not in text and " style=" not in text and "onclick" not in text
    assert "<script>" not in text


def test_an_unknown_address_is_a_page_for_people_and_a_problem_for_programs(client: Client) -> None:
    assert b"Page not found" in client.get("/nothing").content
    assert client.get("/api/v1/nothing")["Content-Type"] == "application/problem+json"


def deploy_check(**more: str) -> subprocess.CompletedProcess[str]:
    base = {name: value for name, value in os.environ.items() if not name.startswith("SECKILL_")}
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    return subprocess.run(command, cwd=ROOT, env=base | more, capture_output=True, text=True, timeout=60)


def test_production_settings_pass_djangos_own_check() -> None:
    checked = deploy_check(**PRODUCTION)
    assert checked.returncode == 0, checked.stderr


def test_the_deployment_check_finds_plain_http_and_the_development_key() -> None:
    checked = deploy_check()
    assert checked.returncode != 0
    for finding in ("security.W010", "security.W016", "security.W009"):
        assert finding in checked.stderr


def test_the_api_has_no_session(client: Client) -> None:
    for address, has_session in (("/api/v1/nothing", False), ("/nothing", True)):
        request = client.get(address).wsgi_request
        assert hasattr(request, "session") is has_session
        assert hasattr(request, "user") is has_session


def test_the_csrf_check_covers_forms_but_not_the_api() -> None:
    strict = Client(enforce_csrf_checks=True)
    assert strict.post("/api/v1/sales/1/ticket").status_code == 401
    assert strict.post("/shop/sign-in", {"user": "ann"}).status_code == 403
