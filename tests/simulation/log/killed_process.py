"""A process that uses a log on real files and is killed on the way; run by test_real_files.

    dying DIRECTORY             append, roll, sync, truncate and expire for ever, telling the parent each offset
    dying DIRECTORY enumerate   fork a child for each system call it would make, which dies before or after that call

What was acknowledged is written to a file of its own that no log touches.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from mqcore.disk import posix
from mqcore.disk.posix import PosixDisk
from mqcore.log.config import LogConfig
from mqcore.log.log import Log
from tests.unit.mqcore.log.bench import append, batch, open_log

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=100, retention_ms=-1, retention_bytes=20_000)


def payload(offset: int) -> bytes:
    return b"%d." % offset * (offset % 40 + 1)


def add(log: Log, acknowledged: int) -> None:
    offset = log.end_offset
    append(log, batch([payload(offset)], producer=1, sequence=offset))
    os.write(acknowledged, b"%d\n" % offset)


def live(directory: str, acknowledged: int, appends: int) -> None:
    log = open_log(PosixDisk(directory), CONFIG)
    for number in range(appends):
        add(log, acknowledged)
        if number % 17 == 16:
            log.sync()
        if number % 29 == 28:
            log.roll(0)
        if number % 23 == 22:
            log.expire(number * 10_000, limit=log.end_offset)
    log.close()


CALLS: tuple[tuple[Any, str], ...] = (
    *((os, name) for name in ("pwrite", "pwritev", "ftruncate", "rename", "unlink", "fsync")),
    (posix, "_fdatasync"),
)


def die_at(nth: int, after: bool) -> list[int]:
    """Make the n-th changing call the last one; returns a box that counts them."""
    count = [0]

    def mortal(call: Callable[..., Any]) -> Callable[..., Any]:
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
        setattr(owner, name, mortal(getattr(owner, name)))
    return count


def enumerate_deaths(root: str) -> None:
    """One folder `<nth>-<before|after>` for each death, until a child lives to the end."""
    for nth in range(1, 10_000):
        for after in (False, True):
            folder = f"{root}/{nth}-{'after' if after else 'before'}"
            os.makedirs(folder)
            acknowledged = os.open(f"{folder}/acknowledged", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            child = os.fork()
            if child == 0:
                die_at(nth, after)
                live(f"{folder}/data", acknowledged, 24)
                os._exit(0)
            os.close(acknowledged)
            if os.waitpid(child, 0)[1] == 0:
                return


if __name__ == "__main__":
    if sys.argv[2:] == ["enumerate"]:
        enumerate_deaths(sys.argv[1])
    else:
        live(sys.argv[1], 1, 1_000_000)
