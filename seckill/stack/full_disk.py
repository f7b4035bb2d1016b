"""Shell: a disk that is full for one running process, without root and without filling the machine's disk.

The kernel refuses every write of the process that would make a file longer (RLIMIT_FSIZE, error EFBIG), its log
included. Reading, renaming and deleting go on, as on a full disk.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def full_disk(pid: int) -> Iterator[None]:
    """The process may end meanwhile, as Apache Kafka does. `ProcessLookupError` if it does not run at the beginning."""
    _, hard = before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
