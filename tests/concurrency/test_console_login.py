"""Guessing passwords: counted before a password is looked at, by address and by name, and not possible uncounted."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.test import Client
from redis import Redis
from redis.exceptions import ConnectionError

from seckill.console import login_limits, staff
from seckill.console.login_limits import FAILURES_PER_NAME_MAX, HASHES_MAX, MOST_FAILURES
from seckill.console.permissions import Power, grant
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
    grant(user, [Power.VIEW])
    return user


def tried(form: dict[str, str], address: str = "10.1.1.1") -> int:
    return Client().post("/console/login", form, REMOTE_ADDR=address).status_code


@pytest.mark.usefixtures("olga")
def test_after_some_failures_an_address_has_to_wait_even_with_the_right_password() -> None:
    assert [tried(WRONG) for _ in range(MOST_FAILURES)] == [403] * MOST_FAILURES
    assert tried(RIGHT) == 429
    assert tried(RIGHT, "10.2.2.2") == 303


@pytest.mark.usefixtures("olga")
def test_made_up_addresses_do_not_help_because_the_name_is_counted_too() -> None:
    answers = Counter(tried(WRONG, f"10.3.{number}.1") for number in range(30))
    assert answers == {403: FAILURES_PER_NAME_MAX, 429: 30 - FAILURES_PER_NAME_MAX}
    assert tried({"username": "OLGA", "password": "?"}, "10.4.4.4") == 429, "however it is written"


@pytest.mark.usefixtures("olga")
def test_a_flood_from_one_address_does_not_lock_the_operator_out_elsewhere() -> None:
    for _ in range(100):
        tried(WRONG)
    assert tried(RIGHT, "10.2.2.2") == 303


@pytest.mark.usefixtures("olga")
def test_successes_are_not_counted() -> None:
    assert {tried(RIGHT) for _ in range(FAILURES_PER_NAME_MAX + 2)} == {303}


@pytest.mark.usefixtures("olga")
def test_a_login_removes_the_sessions_that_are_over() -> None:
    old = SessionStore()
    old.set_expiry(-1)
    old.create()
    assert tried(RIGHT) == 303
    assert not Session.objects.filter(session_key=old.session_key).exists() and Session.objects.count() == 1


@pytest.mark.usefixtures("olga")
def test_a_counter_always_ends(redis: Redis) -> None:
    tried(WRONG)
    keys = redis.keys("console:login:*")
    assert len(keys) == 2 and all(0 < redis.ttl(key) <= login_limits.REST_S for key in keys)
    redis.persist(keys[0])
    tried(WRONG)
    assert redis.ttl(keys[0]) > 0, "also one that had lost its end"


def test_a_hundred_tries_at_once_hash_as_few_as_one_after_the_other_and_two_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The hash takes as long as the slowest of those that are let in together."""
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

    monkeypatch.setattr(staff, "authenticate", authenticate)
    answers = Counter(together([lambda: tried(WRONG)] * 100))
    assert set(answers) <= {403, 429} and sum(answers.values()) == 100
    assert answers[403] == hashed <= MOST_FAILURES
    assert 0 < most <= HASHES_MAX


@pytest.mark.usefixtures("olga")
def test_without_redis_nobody_signs_in(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> Redis:
        raise ConnectionError("Redis is away")

    monkeypatch.setattr(login_limits, "redis", away)
    monkeypatch.setattr(staff, "authenticate", lambda *_, **__: pytest.fail("a password was looked at, uncounted"))
    assert tried(RIGHT) == 503


# ── where the console is ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["/console", "/console/login", "/console/live", "/console/letters"])
def test_outside_development_the_console_is_nowhere_but_on_its_hosts(path: str, olga: User, settings: Any) -> None:
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


def test_a_stranger_cannot_try_a_password_where_the_console_is_not(olga: User, settings: Any) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, development=False)
    assert tried(RIGHT) == 404
