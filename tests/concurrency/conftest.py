"""Tests of several at once, on a real Postgres and Redis: both are empty when a test begins."""

from __future__ import annotations

import pytest
from redis import Redis


@pytest.fixture(autouse=True)
def empty_servers(transactional_db: None, redis: Redis) -> None:
    """Committed rows are seen by other connections; all tables are emptied after each test."""


@pytest.fixture(autouse=True)
def nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of gateway and console would outlive their test, and go on calling what is not there any more."""
    monkeypatch.setattr("gateway.watching.Watch._run", lambda self: None)
    monkeypatch.setattr("seckill.console.watching.Watching._run", lambda self, name, work: None)
