"""A process signals its supervisor that it is ready, by creating a file."""

from __future__ import annotations

import os
from pathlib import Path

READY_FILE = "SECKILL_READY_FILE"
"""The environment variable with the path of that file."""


def mark_ready() -> None:
    path = os.environ.get(READY_FILE)
    if path:
        Path(path).touch()
