"""Shell: what happened to the processes of a stack, one JSON object per line: evidence for `seckill report`.

The manifest lists planned faults. A crash, or a fault that someone injected by hand, appears only here.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


class Observations:
    """`died`, `stopped` and `frozen`, and `up` or `thawed` when that is over. Restarts of the stack append."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, what: str, name: str, **fields: Any) -> None:
        """Append a line. A full disk must not stop the supervisor, so a failed write is only logged."""
        line = {"at_ms": time.time_ns() // 1_000_000, "what": what, "name": name, **fields}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as fault:
            log.warning("observation not written", extra={"what": what, "process": name, "reason": str(fault)})


def is_frozen(pid: int) -> bool:
    """Whether a signal (SIGSTOP) has stopped the process; False on systems without /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] == ["T"]
