"""A whole stack for one test; files whose tests share a stack have a module-scoped fixture of the same name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.stack import Stack


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path / "stack")
    try:
        stack.start()
        yield stack
    finally:
        assert stack.stop() == 0
