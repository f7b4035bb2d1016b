"""A process that uses a log on real files until it is killed. test_real_files starts it.

    killed_process DIRECTORY             append, roll, sync and apply retention endlessly; report each offset
    killed_process DIRECTORY enumerate   for each system call, fork a child that is killed before or after that call

Acknowledged offsets go to a separate file that no log uses.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from mqcore.disk import posix
from mqcore.disk.posix import PosixDisk
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from tests.unit.mqcore.log.helpers import append, batch, open_log

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=100, retention_ms=-1, retention_bytes=20_000)


def payload(offset: int) -> bytes:
    return b"%d." % offset * (offset % 40 + 1)


def add(log: Log, acknowledged: int) -> None:
    offset = log.end_offset
    append(log, batch([payload(offset)], producer=1, sequence=offset))
    os.write(acknowledged, b"%d\n" % offset)


def use_log(directory: str, acknowledged: int, appends: int) -> None:
    log = open_log(PosixDisk(directory), CONFIG)
    for number in range(appends):
        add(log, acknowledged)
        if number % 17 == 16:
            log.sync()
        if number % 29 == 28:
            log.roll(0)
        if number % 23 == 22:
            log.apply_retention(number * 10_000, limit=log.end_offset)
    log.close()


CALLS: tuple[tuple[Any, str], ...] = (
    *((os, name) for name in ("pwrite", "pwritev", "ftruncate", "rename", "unlink", "fsync")),
    (posix, "_fdatasync"),
)


def kill_at(nth: int, after: bool) -> list[int]:
    """Kill the process before or after its n-th change. Returns a list whose element counts the changes."""
    count = [0]

    def killing(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **named: Any) -> Any:
            count[0] += 1
            if count[0] == nth and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = call(*arguments, **named)
            if count[0] == nth:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    for owner, name in CALLS:
        setattr(owner, name, killing(getattr(owner, name)))
    return count


def enumerate_kills(root: str) -> None:
    """Make a folder `<nth>-<before|after>` for each kill, until a child finishes."""
    for nth in range(1, 10_000):
        for after in (False, True):
            folder = f"{root}/{nth}-{'after' if after else 'before'}"
            os.makedirs(folder)
            acknowledged = os.open(f"{folder}/acknowledged", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            child = os.fork()
            if child == 0:
                kill_at(nth, after)
                use_log(f"{folder}/data", acknowledged, 24)
                os._exit(0)
            os.close(acknowledged)
            if os.waitpid(child, 0)[1] == 0:
                return


if __name__ == "__main__":
    if sys.argv[2:] == ["enumerate"]:
        enumerate_kills(sys.argv[1])
    else:
        use_log(sys.argv[1], 1, 1_000_000)
