"""The garbage collector of a long-running process skips what existed at its start."""

from __future__ import annotations

import subprocess
import sys

from seckill.config import garbage

PRINT = "print(gc.get_freeze_count(), gc.get_threshold()[0])"


def freeze_count_and_threshold(script: str) -> tuple[int, int]:
    done = subprocess.run([sys.executable, "-c", f"import gc; {script}"], capture_output=True, text=True, check=True)
    frozen, threshold = map(int, done.stdout.split())
    return frozen, threshold


def test_objects_of_the_start_are_exempt_and_collections_are_rare() -> None:
    tuned = "from seckill.config.garbage import tune_collector; tune_collector(); "
    frozen, threshold = freeze_count_and_threshold(tuned + PRINT)
    assert frozen > 1000
    assert threshold == garbage.NEW_OBJECTS_MAX


def test_without_tuning_nothing_is_exempt() -> None:
    """The control."""
    frozen, threshold = freeze_count_and_threshold(PRINT)
    assert frozen == 0
    assert threshold < garbage.NEW_OBJECTS_MAX
