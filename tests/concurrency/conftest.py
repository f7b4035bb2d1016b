"""Tests of several at once, on a real Postgres and Redis: both are empty when a test begins."""

from __future__ import annotations

import pytest
from redis import Redis


@pytest.fixture(autouse=True)
def empty_servers(transactional_db: None, redis: Redis) -> None:
    """Committed rows are seen by other connections; all tables are emptied after each test."""
