"""Named fault points, switched on only by a development setting: `SECKILL_FAULT=inventory.after_commit`.

A point that is on kills the process the hard way, as kill -9 would. Several are separated by commas; `name:once` is for
the first life of a process, `name:second` for the second one: the stack leaves out what is over when it starts the
process again. At `name:freeze` the process stops, as SIGSTOP would, the first time it comes there, and goes on when
somebody sends SIGCONT.
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
    """Is any point on in this process?"""
    return bool(settings.ENVIRONMENT.fault)


def point(name: str) -> None:
    """Die or stop here if the environment says so."""
    if not settings.ENVIRONMENT.fault:
        return
    on = {each.strip() for each in settings.ENVIRONMENT.fault.split(",")}
    if name in on or name + ONCE in on:
        os.kill(os.getpid(), signal.SIGKILL)
    if name + FREEZE in on and name not in _frozen:
        _frozen.add(name)
        os.kill(os.getpid(), signal.SIGSTOP)


def left_after(lives: int, fault: str) -> str:
    """For a process that is started again: what was for a life that is over is gone."""
    for _ in range(min(lives, 2)):
        left = [each for each in fault.split(",") if each and not each.strip().endswith((ONCE, FREEZE))]
        fault = ",".join(each.replace(SECOND, ONCE) for each in left)
    return fault
