"""Concurrency tests run on a real Postgres and Redis, which are empty when a test begins."""

from __future__ import annotations

import pytest
from redis import Redis

from gateway import backlog_monitor
from seckill.console import monitor as board_monitor


@pytest.fixture(autouse=True)
def empty_servers(transactional_db: None, redis: Redis) -> None:
    """Transactions really commit, so other connections see their rows; all tables are emptied after each test."""


@pytest.fixture(autouse=True)
def no_background_monitors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The monitor threads of gateway and console would outlive their test and use servers that are gone."""
    monkeypatch.setattr(backlog_monitor.shared_monitor(), "runs_thread", False)
    monkeypatch.setattr(board_monitor.shared_monitor(), "runs_threads", False)
