"""Tests of several at once, on a real Postgres and Redis: both are empty when a test begins."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(autouse=True)
def empty_servers(transactional_db: None, redis: Redis) -> None:
    """Committed rows are seen by other connections; all tables are emptied after each test."""


@pytest.fixture(autouse=True)
def forgive_open_sockets() -> Iterator[None]:
    """kafka-python forgets the socket of a connection that was being refused; they go here, where nobody is blamed."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def nobody_watches_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread would outlive its test, and go on calling a broker that is not there."""
    monkeypatch.setattr("gateway.watching.Watch._run", lambda self: None)
