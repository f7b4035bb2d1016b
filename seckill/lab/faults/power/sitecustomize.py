"""Python loads this at startup if this folder is on its path. It records what the process makes durable.

Each sync appends a line to the file that POWER_JOURNAL names: the inode and its durable size in bytes. After a kill,
the rest of each file can be cut off, as a power failure would do (seckill/lab/faults/cases/standstill.py).
"""

import os
from collections.abc import Callable

journal = os.environ.get("POWER_JOURNAL")

if journal:
    lines = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    fsync, fdatasync = os.fsync, os.fdatasync

    def recorded(sync: Callable[..., None]) -> Callable[..., None]:
        def synced(file: int) -> None:
            status = os.fstat(file)
            sync(file)
            os.write(lines, b"%d %d\n" % (status.st_ino, status.st_size))

        return synced

    os.fsync, os.fdatasync = recorded(fsync), recorded(fdatasync)
