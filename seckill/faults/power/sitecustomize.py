"""Loaded by a Python process at its start if this folder is on its path: notes what the process makes durable.

Each sync adds a line to the file that POWER_JOURNAL names: inode, and how many bytes of it are durable now. After a
kill the rest can be cut off, as a loss of power would (seckill/faults/cases/standstill.py).
"""

import os
from collections.abc import Callable

journal = os.environ.get("POWER_JOURNAL")

if journal:
    lines = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    fsync, fdatasync = os.fsync, os.fdatasync

    def noted(sync: Callable[..., None]) -> Callable[..., None]:
        def synced(file: int) -> None:
            status = os.fstat(file)
            sync(file)
            os.write(lines, b"%d %d\n" % (status.st_ino, status.st_size))

        return synced

    os.fsync, os.fdatasync = noted(fsync), noted(fdatasync)
