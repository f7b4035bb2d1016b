"""Named fault points, switched on only by a development setting: `SECKILL_FAULT=inventory.after_commit:once`.

A point that is on kills the process the hard way, as kill -9 would, where the name says.
"""

from __future__ import annotations

import os
import signal

from django.conf import settings


def point(name: str) -> None:
    """Die here if the environment says so. `name:once` needs a file that is gone after the first time."""
    if settings.ENVIRONMENT.fault == name:
        os.kill(os.getpid(), signal.SIGKILL)
