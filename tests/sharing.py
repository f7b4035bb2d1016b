"""Several processes share the tests (`pytest -n 2`): each takes files, one after the other, and has servers of its own.

A file stays together, and so do those that share what is costly to start. They are taken in the order in which they
were collected, so what is long should be named first (Makefile).
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

TOGETHER = {
    "a browser and its stack": ("tests/browser/",),
    "Spark": ("tests/unit/analytics/", "tests/journeys/test_stats.py"),
}


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # untyped there
    def _split_scope(self, nodeid: str) -> str:
        """What a test stays together with."""
        file = nodeid.partition("::")[0]
        return next((what for what, files in TOGETHER.items() if file.startswith(files)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    config.option.loadscopereorder = False
    return ByFile(config, log)
