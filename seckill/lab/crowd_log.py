"""Shell: follows the crowd's log while the crowd still writes it."""

from __future__ import annotations

import json
from pathlib import Path


class CrowdLog:
    """Each `read_new_lines` continues where the last one stopped; an incomplete line is left for the next call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self.attempts = 0
        self._accepted: set[str] = set()

    @property
    def accepted(self) -> int:
        """Distinct requests that were answered 202."""
        return len(self._accepted)

    def read_new_lines(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as log:
            log.seek(self._position)
            content = log.read()
        complete = content[: content.rfind(b"\n") + 1]
        self._position += len(complete)
        for line in complete.splitlines():
            if b'"what":"purchase"' in line:
                record = json.loads(line)
                self.attempts += 1
                if record["status"] == 202:
                    self._accepted.add(record["request_id"])
