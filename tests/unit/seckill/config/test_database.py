"""The database's address: every option is honoured, by the same parser as the report's, and unknown ones are errors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from seckill.config.database import BATCH_STATEMENT_MS, IDLE_IN_TRANSACTION_MS, LOCK_MS, WEB_STATEMENT_MS, settings_of
from seckill.config.environment import BadEnvironment


def test_an_address_is_split_into_djangos_settings() -> None:
    made = settings_of("postgresql://us%40er:p%2Fw@db.example:6543/shop")
    assert (made["USER"], made["PASSWORD"]) == ("us@er", "p/w")
    assert (made["HOST"], made["PORT"], made["NAME"]) == ("db.example", "6543", "shop")


@pytest.mark.parametrize(
    ("query", "name", "value"),
    [
        ("sslmode=verify-full", "sslmode", "verify-full"),
        ("sslrootcert=/etc/ca.pem", "sslrootcert", "/etc/ca.pem"),
        ("target_session_attrs=read-write", "target_session_attrs", "read-write"),
        ("connect_timeout=17", "connect_timeout", "17"),
        ("application_name=mine", "application_name", "mine"),
        ("keepalives_idle=99", "keepalives_idle", "99"),
    ],
)
def test_an_option_of_the_address_reaches_the_driver(query: str, name: str, value: str) -> None:
    assert settings_of(f"postgresql://seckill@127.0.0.1/shop?{query}")["OPTIONS"][name] == value


def test_an_address_may_name_a_socket_or_several_hosts() -> None:
    assert settings_of("postgresql://seckill@/shop?host=/run/postgresql")["HOST"] == "/run/postgresql"
    several = settings_of("postgresql://seckill@one:5432,two:5433/shop?target_session_attrs=read-write")
    assert (several["HOST"], several["PORT"]) == ("one,two", "5432,5433")


@pytest.mark.parametrize("query", ["", "?target_session_attrs=any", "?target_session_attrs=prefer-standby"])
def test_an_address_of_several_hosts_must_ask_for_the_one_that_accepts_writes(query: str) -> None:
    with pytest.raises(BadEnvironment, match="target_session_attrs=read-write"):
        settings_of(f"postgresql://seckill:hidden@one:5432,two:5433/shop{query}")


def test_session_options_in_the_address_override_ours() -> None:
    made = settings_of("postgresql://seckill@/shop?options=-c%20lock_timeout%3D77", statement_timeout_ms=5000)
    words = made["OPTIONS"]["options"].split()
    assert words[-1] == "lock_timeout=77"
    assert f"lock_timeout={LOCK_MS}" in words
    assert "statement_timeout=5000" in words
    assert f"idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_MS}" in words


@pytest.mark.parametrize("query", ["sslmod=require", "pool=5"])
def test_an_unknown_option_is_an_error_that_names_it_and_not_the_password(query: str) -> None:
    with pytest.raises(BadEnvironment, match=f"SECKILL_DATABASE_URL.*{query.partition('=')[0]}") as refused:
        settings_of(f"postgresql://seckill:hidden@127.0.0.1/shop?{query}")
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("url", ["postgresql://seckill:hidden@[::1/shop", "mysql://seckill:hidden@db/shop", "hidden"])
def test_a_malformed_address_is_an_error_that_hides_the_password(url: str) -> None:
    with pytest.raises(BadEnvironment, match="SECKILL_DATABASE_URL") as refused:
        settings_of(url)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("begin", "expected_ms"),
    [
        ("import gateway.app", WEB_STATEMENT_MS),
        ("from seckill.cli import services; services.start_service()", BATCH_STATEMENT_MS),
        ("from seckill.cli.context import start_django; start_django()", 0),
    ],
    ids=["gateway", "service", "tool"],
)
def test_gateways_and_services_limit_their_statements_and_migrations_do_not(begin: str, expected_ms: int) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SECKILL_")}
    environment["SECKILL_DATABASE_URL"] = "postgresql://seckill@127.0.0.1:1/seckill"
    show = "from django.conf import settings; print(settings.DATABASES['default']['OPTIONS']['options'])"
    done = subprocess.run(
        [sys.executable, "-c", f"{begin}; {show}"], capture_output=True, text=True, env=environment, timeout=60
    )
    assert f"statement_timeout={expected_ms} " in done.stdout, done.stderr


@pytest.mark.parametrize(("words", "expected"), [(["worker"], "16"), (["inspect"], "None")])
def test_a_celery_worker_keeps_its_connections_between_tasks(words: list[str], expected: str) -> None:
    """Celery closes a connection after each task; with a pool it goes back there."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SECKILL_")}
    begin = f"import sys; sys.argv[1:] = {words}; import seckill.celery"
    show = "from django.conf import settings; options = settings.DATABASES['default']['OPTIONS']"
    done = subprocess.run(
        [sys.executable, "-c", f"{begin}; {show}; print(options.get('pool', {{}}).get('max_size'))"],
        capture_output=True, text=True, env=environment, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == expected, done.stderr
