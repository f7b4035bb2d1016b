"""Shell: describe the machine that a report was made on: processor, system, versions."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("django", "kafka-python", "psycopg", "redis", "celery", "granian")


def describe_machine() -> str:
    cores = os.cpu_count() or 1
    parts = [f"{_processor()}, {cores} cores", f"{platform.system()} {platform.release()}"]
    parts.append(f"Python {platform.python_version()}")
    return "; ".join([*parts, *(f"{name} {found}" for name in LIBRARIES if (found := _version(name)))])


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
