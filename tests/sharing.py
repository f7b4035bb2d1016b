"""How several processes share the tests (`pytest -n 2`): each takes whole files in turn and has its own servers.

Files that share an expensive fixture stay together. Processes take files in the order of collection, so the Makefile
names long-running folders first.
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
        """The name of the group to which a test belongs."""
        file = nodeid.partition("::")[0]
        return next((what for what, files in TOGETHER.items() if file.startswith(files)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    config.option.loadscopereorder = False
    return ByFile(config, log)
