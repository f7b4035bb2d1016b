"""Named fault points, switched on only by a development setting: `SECKILL_FAULT=inventory.after_commit`.

A point that is on kills the process the hard way, as kill -9 would. Several are separated by commas; `name:once` is for
the first life of a process: the stack leaves it out when it starts the process again.
"""

from __future__ import annotations

import os
import signal

from django.conf import settings

ONCE = ":once"


def point(name: str) -> None:
    """Die here if the environment says so."""
    fault = settings.ENVIRONMENT.fault
    if fault and name in {each.strip().removesuffix(ONCE) for each in fault.split(",")}:
        os.kill(os.getpid(), signal.SIGKILL)


def left_after_the_first_life(fault: str) -> str:
    return ",".join(each for each in fault.split(",") if each and not each.strip().endswith(ONCE))
