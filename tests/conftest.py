"""Shared by all tests: fixtures, and what happens if the machine lacks a tool.

A user without Java can run the tests; those that need it are skipped with a reason. In CI a missing tool is a failure,
because a test that never runs proves nothing.
"""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterable

import pytest

from tests.leftovers import pytest_runtest_protocol
from tests.services import (
    broker,
    django_db_keepdb,
    django_db_modify_db_settings,
    redis,
    services,
)
from tests.sharing import pytest_xdist_make_scheduler
from tests.spark import spark

__all__ = [
    "broker",
    "django_db_keepdb",
    "django_db_modify_db_settings",
    "pytest_runtest_protocol",
    "pytest_xdist_make_scheduler",
    "redis",
    "services",
    "spark",
]

DEBIAN_PACKAGE = {
    "java": "default-jdk-headless", "mvn": "maven", "kcat": "kcat", "strace": "strace", "chromium": "chromium",
    "promtool": "prometheus",
}  # fmt: skip


def missing_tools(tools: Iterable[str]) -> list[str]:
    return [tool for tool in tools if shutil.which(tool) is None]


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("true", "1")


def pytest_collection_finish() -> None:
    """Freeze imported modules, because scanning them in every garbage collection takes longer than most tests."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        missing = missing_tools(marker.args)
        if missing:
            packages = " ".join(DEBIAN_PACKAGE[tool] for tool in missing)
            reason = f"needs {', '.join(missing)} (Debian: apt-get install {packages})"
            if in_ci():
                pytest.fail(reason, pytrace=False)
            pytest.skip(reason)
