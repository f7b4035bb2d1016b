"""How many files a process may open: each connection is one."""

import resource

FILES = 8192


def raise_limit(wanted: int = FILES) -> None:
    """As far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
