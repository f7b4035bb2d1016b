"""What the collector of a process looks at."""

from __future__ import annotations

import subprocess
import sys

from seckill import garbage


def test_what_the_start_has_made_is_looked_at_no_more() -> None:
    look = "import gc; from seckill.garbage import settle_down; settle_down(); "
    look += "print(gc.get_freeze_count(), *gc.get_threshold())"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    frozen, most_new, *_ = map(int, done.stdout.split())
    assert frozen > 1000
    assert most_new == garbage.MOST_NEW
