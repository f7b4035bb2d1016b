"""The cast of the tests of Redis Cluster and Sentinels: the application's settings point at them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from django.conf import settings

from gateway import sales
from inventory import sale_view
from tests.concurrency.stock_cast import forget_redis_clients
from tests.gateway_loop import forget_connections


@contextmanager
def redis_at(admission: str, gate: str, celery: str | None = None) -> Iterator[None]:
    before = settings.ENVIRONMENT
    with pytest.MonkeyPatch.context() as patch:
        celery = celery or before.celery_redis_url
        there = replace(before, admission_redis_url=admission, gate_redis_url=gate, celery_redis_url=celery)
        patch.setattr(settings, "ENVIRONMENT", there)
        patch.setattr(sales, "_snapshot", sales._Snapshot())
        _forget_clients()
        yield
    _forget_clients()


def _forget_clients() -> None:
    forget_connections()
    forget_redis_clients()
    sale_view._client.cache_clear()
