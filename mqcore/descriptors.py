"""Shell: the open files of this process, divided between connections and logs.

The soft limit is raised to the hard limit. Half of it is reserved for files, or more if the logs need more, so clients
that only connect cannot stop a log from rolling, syncing or being compacted. A quarter is always left for connections.
"""

from __future__ import annotations

import logging
import resource

log = logging.getLogger(__name__)

RESERVED_FILES = 64  # listeners, checkpoints, threads, the event loop
FILES_PER_PARTITION = 2  # the active segment, and one that is being read or is not durable yet


def raise_open_files_limit() -> int:
    """Raise this process's limit to the most that the system allows, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError) as fault:  # some systems report a hard limit that they do not grant
            log.warning(
                "the limit of open files could not be raised", extra={"soft": soft, "hard": hard, "reason": str(fault)}
            )
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return soft


def connections_allowed(wanted: int, open_files: int, partitions: int) -> int:
    """`max.connections`, or fewer if more would not leave enough descriptors for the logs; then with a warning."""
    if open_files == resource.RLIM_INFINITY:
        return wanted
    for_files = max(open_files // 2, RESERVED_FILES + FILES_PER_PARTITION * partitions)
    allowed = min(wanted, max(open_files - for_files, open_files // 4, 1))
    if allowed < wanted:
        log.warning(
            "max.connections is reduced because of the limit of open files",
            extra={"max.connections": wanted, "allowed": allowed, "open_files": open_files, "partitions": partitions},
        )
    return allowed
