"""Shell: a datagram a second that says that this process lives, for the report service.

SECKILL_SIGNS_TO names its address; without it nothing is sent. A datagram needs none of the servers, so their faults do
not look like a fault of this process. A process that ends in order says goodbye; one that is killed cannot, and one
that is frozen sends nothing until it goes on.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

SIGNS_TO = "SECKILL_SIGNS_TO"
"""The environment variable with host and port."""
INTERVAL_SECONDS = 1.0
DATAGRAM_BYTES_MAX = 512

log = logging.getLogger(__name__)


class SignsOfLife:
    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = host, int(port)
        self._life = uuid.uuid4().hex
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="signs of life", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def say_goodbye(self) -> None:
        """Call it when the process ends in order."""
        self._stopping.set()
        self._thread.join(INTERVAL_SECONDS)
        self._send(is_goodbye=True)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._send(is_goodbye=False)
            self._stopping.wait(INTERVAL_SECONDS)

    def _send(self, *, is_goodbye: bool) -> None:
        sign = {"host": socket.gethostname()[:100], "life": self._life, "goodbye": is_goodbye}
        try:
            self._socket.sendto(json.dumps(sign).encode(), self._address)
        except OSError as fault:  # the report service is away, or its name cannot be resolved
            log.debug("sign of life not sent", extra={"reason": str(fault)})


def start_signs() -> SignsOfLife | None:
    """None if this process is not to send any."""
    address = os.environ.get(SIGNS_TO)
    if not address:
        return None
    signs = SignsOfLife(address)
    signs.start()
    return signs


@contextmanager
def signs_of_life() -> Iterator[None]:
    """Around the work of a process. After an exception it says no goodbye, because that is not an end in order."""
    signs = start_signs()
    yield
    if signs is not None:
        signs.say_goodbye()
