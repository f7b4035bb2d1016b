"""Fault points: places where a development setting makes the process crash: `SECKILL_FAULT=inventory.after_commit`.

An enabled point kills the process with SIGKILL. Several points are separated by commas. `name:once` applies to the
first life of a process, `name:second` to the second: the stack removes used points when it restarts the process. At
`name:freeze` the process stops itself with SIGSTOP the first time, and continues when it receives SIGCONT.
"""

from __future__ import annotations

import os
import signal

from django.conf import settings

ONCE = ":once"
SECOND = ":second"
FREEZE = ":freeze"

_frozen: set[str] = set()


def are_on() -> bool:
    """Whether any point is enabled in this process."""
    return bool(settings.ENVIRONMENT.fault)


def trigger(name: str) -> None:
    """Crash or stop here if the environment enables this point."""
    if not settings.ENVIRONMENT.fault:
        return
    on = {each.strip() for each in settings.ENVIRONMENT.fault.split(",")}
    if name in on or name + ONCE in on:
        os.kill(os.getpid(), signal.SIGKILL)
    if name + FREEZE in on and name not in _frozen:
        _frozen.add(name)
        os.kill(os.getpid(), signal.SIGSTOP)


def remaining_faults(lives: int, fault: str) -> str:
    """The points that remain for a process after so many lives."""
    for _ in range(min(lives, 2)):
        left = [each for each in fault.split(",") if each and not each.strip().endswith((ONCE, FREEZE))]
        fault = ",".join(each.replace(SECOND, ONCE) for each in left)
    return fault
