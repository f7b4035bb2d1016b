"""Tests of several at once, on a real Postgres and Redis: both are empty when a test begins."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest
from redis import Redis


@pytest.fixture(autouse=True)
def empty_servers(transactional_db: None, redis: Redis) -> None:
    """Committed rows are seen by other connections; all tables are emptied after each test."""


@pytest.fixture(autouse=True)
def forgive_open_sockets() -> Iterator[None]:
    """kafka-python forgets the socket of a connection that was being refused; they go here, where nobody is blamed."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
