"""The limit of open files of this process. Every connection is an open file."""

import resource

OPEN_FILES_WANTED = 8192


def raise_limit(wanted: int = OPEN_FILES_WANTED) -> None:
    """Raise the soft limit, as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
