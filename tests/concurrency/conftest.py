"""Tests of several at once, on a real Postgres and Redis: both are empty when a test begins."""

from __future__ import annotations

import pytest
from redis import Redis

from tests.leftovers import pytest_runtest_protocol

__all__ = ["pytest_runtest_protocol"]


@pytest.fixture(autouse=True)
def empty_servers(transactional_db: None, redis: Redis) -> None:
    """Committed rows are seen by other connections; all tables are emptied after each test."""


@pytest.fixture(autouse=True)
def nobody_watches_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread would outlive its test, and go on calling a broker that is not there."""
    monkeypatch.setattr("gateway.watching.Watch._run", lambda self: None)
