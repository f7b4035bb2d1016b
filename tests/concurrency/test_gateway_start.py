"""What the gateway looks at before it serves: a pool that Postgres could not fill would only hurt under load."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.conf import settings
from django.db import connection

from gateway import starting
from gateway.starting import BadStart


def free() -> int:
    with connection.cursor() as cursor:
        cursor.execute(starting._FREE)
        return int(cursor.fetchone()[0])


def test_a_pool_larger_than_what_postgres_has_left_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    left = free()
    assert left > 1
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, database_pool=left + 50))
    with pytest.raises(BadStart, match=f"may open {left + 50} connections, and Postgres has .* left"):
        starting.check()
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, database_pool=1))
    starting.check()


def test_proxies_that_are_no_addresses_stop_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, trusted_proxies="10.0.0.0/8,nonsense"))
    with pytest.raises(BadStart, match="SECKILL_TRUSTED_PROXIES"):
        starting.check()


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
        ({"development": True, "allow_public_bind": True}, "whoever can connect can forge"),
        ({"allow_public_bind": True, "secret_key": "k" * 32, "provider_secret": "p" * 32}, None),
    ],
)
def test_what_is_unwise_in_production_is_warned_of(
    different: dict[str, object],
    warning: str | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    chosen = replace(settings.ENVIRONMENT, **(PRODUCTION | different))  # type: ignore[arg-type]
    monkeypatch.setattr(settings, "ENVIRONMENT", chosen)
    starting._check_proxies()
    starting._check_sign_in()
    starting._check_keys()
    assert [warning in line for line in caplog.messages] == [True] if warning else not caplog.messages


def test_a_sign_in_that_is_not_there_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, sign_in="shop.accounts.sign_in"))
    with pytest.raises(BadStart, match="SECKILL_SIGN_IN: No module named 'shop'"):
        starting.check()
