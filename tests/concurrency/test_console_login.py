"""Login limits: every attempt is counted by address and name before the password is checked."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from django.contrib import auth
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.test import Client
from redis import Redis
from redis.exceptions import ConnectionError

from seckill.console import login_limits
from seckill.console.login_limits import FAILURES_MAX, FAILURES_PER_NAME_MAX, HASHES_MAX
from seckill.console.permissions import ConsolePermission, grant_permissions
from tests.services import together

pytestmark = pytest.mark.usefixtures("redis")

RIGHT = {"username": "olga", "password": "a good long one"}
WRONG = {"username": "olga", "password": "?"}


@pytest.fixture(autouse=True)
def quick_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def olga() -> User:
    user = User.objects.create_user("olga", password=RIGHT["password"], is_staff=True)
    grant_permissions(user, [ConsolePermission.VIEW])
    return user


def tried(form: dict[str, str], address: str = "10.1.1.1") -> int:
    return Client().post("/console/login", form, REMOTE_ADDR=address).status_code


@pytest.mark.usefixtures("olga")
def test_after_some_failures_an_address_has_to_wait_even_with_the_right_password() -> None:
    assert [tried(WRONG) for _ in range(FAILURES_MAX)] == [403] * FAILURES_MAX
    assert tried(RIGHT) == 429
    assert tried(RIGHT, "10.2.2.2") == 303


@pytest.mark.usefixtures("olga")
def test_changing_addresses_does_not_help_because_names_are_counted_too() -> None:
    answers = Counter(tried(WRONG, f"10.3.{number}.1") for number in range(30))
    assert answers == {403: FAILURES_PER_NAME_MAX, 429: 30 - FAILURES_PER_NAME_MAX}
    assert tried({"username": "OLGA", "password": "?"}, "10.4.4.4") == 429, "in upper and lower case"


@pytest.mark.usefixtures("olga")
def test_a_flood_from_one_address_does_not_lock_the_operator_out_elsewhere() -> None:
    for _ in range(100):
        tried(WRONG)
    assert tried(RIGHT, "10.2.2.2") == 303


@pytest.mark.usefixtures("olga")
def test_successes_are_not_counted() -> None:
    assert {tried(RIGHT) for _ in range(FAILURES_PER_NAME_MAX + 2)} == {303}


@pytest.mark.usefixtures("olga")
def test_a_login_removes_expired_sessions() -> None:
    old = SessionStore()
    old.set_expiry(-1)
    old.create()
    assert tried(RIGHT) == 303
    assert not Session.objects.filter(session_key=old.session_key).exists() and Session.objects.count() == 1


@pytest.mark.usefixtures("olga")
def test_every_login_counter_expires(redis: Redis) -> None:
    tried(WRONG)
    keys = redis.keys("console:login:*")
    assert len(keys) == 2 and all(0 < redis.ttl(key) <= login_limits.WINDOW_S for key in keys)
    redis.persist(keys[0])
    tried(WRONG)
    assert redis.ttl(keys[0]) > 0, "even one that had lost its expiry"


def test_a_hundred_simultaneous_logins_compute_few_hashes_two_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each hash takes as long as the slowest of those that run together."""
    hashed, at_once, most = 0, 0, 0
    lock, full = threading.Lock(), threading.Barrier(HASHES_MAX)

    def authenticate(*_: Any, **__: Any) -> None:
        nonlocal hashed, at_once, most
        with lock:
            hashed, at_once = hashed + 1, at_once + 1
            most = max(most, at_once)
        try:
            full.wait(1)
        except threading.BrokenBarrierError:
            pass
        with lock:
            at_once -= 1

    monkeypatch.setattr(auth, "authenticate", authenticate)
    answers = Counter(together([lambda: tried(WRONG)] * 100))
    assert set(answers) <= {403, 429} and sum(answers.values()) == 100
    assert answers[403] == hashed <= FAILURES_MAX
    assert 0 < most <= HASHES_MAX


@pytest.mark.usefixtures("olga")
def test_without_redis_nobody_signs_in(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> Redis:
        raise ConnectionError("Redis is away")

    monkeypatch.setattr(login_limits, "redis_connection", away)
    monkeypatch.setattr(auth, "authenticate", lambda *_, **__: pytest.fail("a password was checked, uncounted"))
    assert tried(RIGHT) == 503


# ── where the console is ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["/console", "/console/login", "/console/live", "/console/letters"])
def test_outside_development_the_console_exists_on_its_own_hosts_only(path: str, olga: User, settings: Any) -> None:
    production = replace(settings.ENVIRONMENT, development=False)
    client = Client()
    client.force_login(olga)
    settings.ENVIRONMENT = production
    assert Client().get(path).status_code == client.get(path).status_code == 404
    settings.ENVIRONMENT = replace(production, console_hosts="ops.example, testserver")
    assert Client().get(path).status_code in (200, 302)
    assert client.get(path).status_code == 200
    settings.ENVIRONMENT = replace(production, console_hosts="ops.example")
    assert client.get(path).status_code == 404
    settings.ALLOWED_HOSTS = ["ops.example"]
    assert client.get(path, headers={"Host": "ops.example:8443"}).status_code == 200


def test_no_password_can_be_tried_on_other_hosts(olga: User, settings: Any) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, development=False)
    assert tried(RIGHT) == 404
