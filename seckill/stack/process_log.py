"""Shell: what happened to the processes of a stack, one JSON object a line: evidence for `seckill report`.

A fault that was planned is in the manifest; one that came by hand, or by itself, is only here.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


class Observations:
    """`died`, `stopped`, `frozen`, and `up` or `thawed` when that is over. Appended to over all lives of a stack."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, what: str, name: str, **more: Any) -> None:
        """Never in the way of the supervisor: what cannot be written is only logged."""
        line = {"at_ms": time.time_ns() // 1_000_000, "what": what, "name": name, **more}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as fault:
            log.warning("not noted", extra={"what": what, "process": name, "reason": str(fault)})


def is_frozen(pid: int) -> bool:
    """Is it stopped by a signal (SIGSTOP)? False where the system does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] == ["T"]
