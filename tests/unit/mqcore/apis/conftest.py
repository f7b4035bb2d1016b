"""The broker that most of these tests use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.mqcore.apis.running_broker import RunningBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data") as broker:
        yield broker
