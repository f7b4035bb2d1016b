"""Shell: the open files of this process, shared out between connections and logs.

The soft limit is raised to the hard one. Half of it, or what the logs need if that is more, is kept for files: clients
that only connect must not be able to stop a log from rolling, syncing or being compacted. A quarter is always left
for connections.
"""

from __future__ import annotations

import logging
import resource

log = logging.getLogger(__name__)

RESERVED = 64  # listeners, checkpoints, threads, the event loop
FILES_A_PARTITION = 2  # its active segment, and one that is read or not durable yet


def raise_limit() -> int:
    """Take as many open files as the system allows; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError) as fault:  # some systems name a hard limit that they do not grant
            log.warning("the limit of open files stays", extra={"soft": soft, "hard": hard, "reason": str(fault)})
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return soft


def connections_allowed(wanted: int, open_files: int, partitions: int) -> int:
    """How many connections leave enough descriptors for the logs: `max.connections`, or fewer, with a warning."""
    if open_files == resource.RLIM_INFINITY:
        return wanted
    for_files = max(open_files // 2, RESERVED + FILES_A_PARTITION * partitions)
    allowed = min(wanted, max(open_files - for_files, open_files // 4, 1))
    if allowed < wanted:
        log.warning(
            "max.connections is cut to what the limit of open files leaves",
            extra={"max.connections": wanted, "allowed": allowed, "open_files": open_files, "partitions": partitions},
        )
    return allowed
