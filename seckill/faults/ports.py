"""Shell: ports for a stack that will go down and come up again."""

from __future__ import annotations

import socket
from collections.abc import Iterator


def free_ports(first: int) -> Iterator[int]:
    """From there on. Not from where outgoing connections take theirs: a server that is down must get its own again."""
    for port in range(first, 32_000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port
