"""Shell: the process that looks every so often for what is due, and does it; what fails passingly is due again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

from django.db import Error as DatabaseError
from django.db import close_old_connections
from redis.exceptions import RedisError

from seckill.streams.ready import announce

log = logging.getLogger(__name__)


class Sweep:
    """`look` returns whether there was so much to do that it should look again at once."""

    def __init__(self, name: str, beat_s: float, look: Callable[[], bool]) -> None:
        self._name = name
        self._beat_s = beat_s
        self._look = look
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Finish what is under way, then return. Safe in a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        announce()
        while not self._stopping.is_set():
            try:
                again = self._look()
            except (DatabaseError, RedisError) as fault:
                log.warning("sweep pauses", extra={"sweep": self._name, "reason": str(fault)})
                close_old_connections()
                again = False
            if not again:
                self._stopping.wait(self._beat_s)


class Sweeps:
    """Several in one process, each on a thread. If one of them fails for good, all stop, and it is raised."""

    def __init__(self, *sweeps: Sweep) -> None:
        self._sweeps = sweeps

    def stop(self) -> None:
        for sweep in self._sweeps:
            sweep.stop()

    def run(self) -> None:
        with ThreadPoolExecutor(len(self._sweeps), "sweep") as pool:
            running = [pool.submit(sweep.run) for sweep in self._sweeps]
            for done in as_completed(running):
                self.stop()  # the first one that ends: it was told to, or has failed
                done.result()
