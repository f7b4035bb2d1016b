"""Where a process runs. One whose threads pass the interpreter's lock on all the time is faster on one core.

Only one of them works at a time, and to wake the next one on another core costs three times as much as on the same:
the gateway answers half as many requests again. Processes that are not held go where there is room.
"""

from __future__ import annotations

import os
from pathlib import Path


def stay_on_one() -> None:
    """All threads of this process and those they will begin. Workers that one server begins one after the other get
    different cores; servers do not know of one another. Where the system cannot do it, nothing happens."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    core = cores[os.getpid() % len(cores)]
    for thread in Path("/proc/self/task").iterdir():
        try:
            os.sched_setaffinity(int(thread.name), {core})
        except ProcessLookupError:
            pass  # it has ended meanwhile
