"""What orders do by themselves, every half second: end what is over, give back what is owed, compare the books."""

from __future__ import annotations

import logging
import threading

from django.db import Error as DatabaseError
from django.db import close_old_connections

from orders import expiring, reconciling, refunding
from seckill.streams.ready import announce

log = logging.getLogger(__name__)

BEAT_S = 0.5


def look() -> bool:
    """Each duty once; True: there was so much to do that it is worth looking again at once."""
    done = expiring.expire_due() + refunding.refund_due() + expiring.close_leftovers()
    return reconciling.look() or bool(done)


class Sweep:
    def __init__(self) -> None:
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        announce()
        while not self._stopping.is_set():
            try:
                again = look()
            except DatabaseError as fault:
                log.warning("sweep pauses", extra={"reason": str(fault)})
                close_old_connections()
                again = False
            if not again:
                self._stopping.wait(BEAT_S)
