"""What a demo is watched by: the crowd's log as it grows, and what the database has decided."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import NamedTuple

import psycopg

KEPT = 240

_NOW = """
SELECT (SELECT count(*) FROM inventory_decided), coalesce(sum(available), 0)::bigint,
       coalesce(sum(reserved), 0)::bigint, coalesce(sum(sold), 0)::bigint,
       (SELECT count(*) FROM notifications_delivery WHERE state = 'due')
FROM inventory_stock
"""


class Count(NamedTuple):
    """At one moment, since the beginning."""

    at_s: float
    offered: int
    acknowledged: int
    decided: int
    free: int
    held: int
    sold: int
    due: int = 0  # messages to buyers

    @property
    def backlog(self) -> int:
        """Accepted, and nobody has decided yet."""
        return max(0, self.acknowledged - self.decided)


class Rates(NamedTuple):
    """A second."""

    offered: float
    acknowledged: float
    decided: float


class CrowdLog:
    """Reads on where it had stopped; a line that is not whole yet is left for the next time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self.offered = 0
        self._accepted: set[str] = set()

    @property
    def acknowledged(self) -> int:
        return len(self._accepted)

    def read_on(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as log:
            log.seek(self._position)
            content = log.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._position += len(whole)
        for line in whole.splitlines():
            if b'"what":"purchase"' in line:
                said = json.loads(line)
                self.offered += 1
                if said["status"] == 202:
                    self._accepted.add(said["request_id"])


class Meter:
    """The last minute of counts, and what they are a second."""

    def __init__(self, log: CrowdLog, database: psycopg.Connection) -> None:
        self._log, self._database = log, database
        self.counts: deque[Count] = deque(maxlen=KEPT)

    def look(self, at_s: float) -> Count:
        self._log.read_on()
        row = self._database.execute(_NOW).fetchone()
        assert row is not None
        count = Count(at_s, self._log.offered, self._log.acknowledged, *row)
        self.counts.append(count)
        return count

    def rates(self, back: int = 4) -> Rates:
        """Over the last looks."""
        return (
            rates(self.counts[max(0, len(self.counts) - 1 - back)], self.counts[-1]) if self.counts else Rates(0, 0, 0)
        )


def rates(before: Count, after: Count) -> Rates:
    seconds = after.at_s - before.at_s
    if seconds <= 0:
        return Rates(0, 0, 0)
    return Rates(*((now - then) / seconds for then, now in zip(before[1:4], after[1:4], strict=True)))
