"""The numbers of a running demo: the crowd's log as it grows, and what the database has decided."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from seckill.lab.crowd_log import CrowdLog
from seckill.lab.sale_database import SaleDatabase
from seckill.report.traffic import backlog, rate_per_second

SAMPLES_MAX = 240


class Sample(NamedTuple):
    """Totals since the start of the demo."""

    at_s: float
    attempts: int
    accepted: int
    decided: int
    available: int
    reserved: int
    sold: int
    deliveries_due: int = 0

    @property
    def backlog(self) -> int:
        """Accepted requests that are not decided yet."""
        return backlog(self.accepted, self.decided)


class Rates(NamedTuple):
    """Per second."""

    attempts: float
    accepted: float
    decided: float


class Meter:
    """Takes samples and keeps those of the last minute."""

    def __init__(self, log: CrowdLog, database: SaleDatabase) -> None:
        self._log, self._database = log, database
        self.samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)

    def take_sample(self, at_s: float) -> Sample:
        self._log.read_new_lines()
        sample = Sample(at_s, self._log.attempts, self._log.accepted, *self._database.counts())
        self.samples.append(sample)
        return sample

    def rates(self, samples: int = 4) -> Rates:
        """Rates over this many recent samples."""
        if not self.samples:
            return Rates(0, 0, 0)
        return rates(self.samples[max(0, len(self.samples) - 1 - samples)], self.samples[-1])


def rates(before: Sample, after: Sample) -> Rates:
    span_ms = (after.at_s - before.at_s) * 1000
    if span_ms <= 0:
        return Rates(0, 0, 0)
    pairs = zip(before[1:4], after[1:4], strict=True)
    return Rates(*(rate_per_second(later - earlier, span_ms) for earlier, later in pairs))
