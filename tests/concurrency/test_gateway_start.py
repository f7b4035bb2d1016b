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
