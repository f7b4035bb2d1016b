"""The input and the output of jobs."""

from __future__ import annotations

import os
import resource
import time
from typing import Any, NotRequired, TypedDict


class Spec(TypedDict):
    port: int
    ports: NotRequired[list[int]]  # of several brokers, which lead the partitions in turns
    topic: str
    partitions: NotRequired[int]
    size: NotRequired[int]  # bytes of a value
    acks: NotRequired[str]
    seconds: NotRequired[float]  # stop after
    records: NotRequired[int]  # or after this many
    connections: NotRequired[int]
    batch: NotRequired[int]  # records per raw request
    linger_ms: NotRequired[float]  # how long the client waits for more records to send with the first one (0)
    rate: NotRequired[float]  # records per second; 0: as many as possible
    redis: NotRequired[bool]
    folder: NotRequired[str]


Result = dict[str, Any]


class Stopwatch:
    """Wall-clock time and own CPU time since its creation."""

    def __init__(self) -> None:
        self._cpu = _cpu()
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def result(self, records: int, size: int, *, rejected: int = 0) -> Result:
        seconds = self.seconds
        return {
            "records": records,
            "bytes": records * size,
            "rejected": rejected,
            "seconds": seconds,
            "client_cores": (_cpu() - self._cpu) / seconds,
            "mb_per_s": records * size / 1e6 / seconds,
            "per_s": records / seconds,
        }


def payload(size: int) -> bytes:
    """Random bytes, which no layer can compress."""
    return os.urandom(size)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
