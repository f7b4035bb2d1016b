"""Checks at the gateway's start, for settings that would otherwise fail only under load."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.conf import settings
from django.db import connection

from gateway import startup_checks
from gateway.startup_checks import StartupError


def free() -> int:
    with connection.cursor() as cursor:
        cursor.execute(startup_checks._FREE_CONNECTIONS)
        return int(cursor.fetchone()[0])


def test_a_pool_larger_than_the_free_connections_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    left = free()
    assert left > 1
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, database_pool=left + 50))
    with pytest.raises(StartupError, match=f"may open {left + 50} connections, but Postgres has only .* left"):
        startup_checks.run_checks()
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, database_pool=1))
    startup_checks.run_checks()


def test_malformed_trusted_proxies_stop_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, trusted_proxies="10.0.0.0/8,nonsense"))
    with pytest.raises(StartupError, match="SECKILL_TRUSTED_PROXIES"):
        startup_checks.run_checks()


PRODUCTION = {"development": False, "sign_in": "django.views.defaults.server_error", "trusted_proxies": "10.0.0.7"}


@pytest.mark.parametrize(
    ("different", "warning"),
    [
        ({}, None),
        ({"development": True, "trusted_proxies": "10.0.0.0/8", "sign_in": ""}, None),
        ({"trusted_proxies": "10.0.0.7,172.16.0.0/12"}, "trusts a whole network"),
        ({"trusted_proxies": "fc00::/7"}, "trusts a whole network"),
        ({"trusted_proxies": ""}, "all buyers count as one address"),
        ({"sign_in": ""}, "no buyer can sign in"),
        ({"development": True, "allow_public_bind": True}, "anyone who can connect can forge"),
        ({"allow_public_bind": True, "secret_key": "k" * 32, "provider_secret": "p" * 32}, None),
    ],
)
def test_unwise_production_settings_cause_a_warning(
    different: dict[str, object],
    warning: str | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    chosen = replace(settings.ENVIRONMENT, **(PRODUCTION | different))  # type: ignore[arg-type]
    monkeypatch.setattr(settings, "ENVIRONMENT", chosen)
    startup_checks._check_proxies()
    startup_checks._check_sign_in()
    startup_checks._check_keys()
    assert [warning in line for line in caplog.messages] == [True] if warning else not caplog.messages


def test_a_missing_sign_in_view_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, sign_in="shop.accounts.sign_in"))
    with pytest.raises(StartupError, match="SECKILL_SIGN_IN: No module named 'shop'"):
        startup_checks.run_checks()
