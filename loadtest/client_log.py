"""What each buyer was told: one JSON object a line; the last one counts and sums the others. And the manifest beside.

A log is one process's. It is declared in the manifest before the first request is sent: a process that is killed
leaves a log that is declared and has no last line, and that is evidence which was cut off, never evidence which is
fine.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import time
from pathlib import Path
from typing import Any

from loadtest.buyers import Answer, Call, lines

VERSION = 1
MANIFEST = "manifest.json"


class ClientLog:
    """A log without its last line was cut off, and says so by that."""

    def __init__(self, path: Path, **head: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("xb")  # evidence is never written over
        self._sum = hashlib.sha256()
        self._count = 0
        self.write("begin", version=VERSION, **head)

    def write(self, what: str, at_ms: int | None = None, **fields: Any) -> None:
        record = {"at_ms": now_ms() if at_ms is None else at_ms, "what": what, **fields}
        line = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        self._sum.update(line)
        self._count += 1
        self._file.write(line)

    def record(self, call: Call, began_ms: int, answer: Answer) -> None:
        self.write(call.what, began_ms, took_ms=now_ms() - began_ms, **dict(lines(call, answer)))

    def flush(self) -> None:
        """So that others can watch; only `close` makes it whole."""
        self._file.flush()

    def close(self) -> None:
        end = {"at_ms": now_ms(), "what": "end", "count": self._count, "sha256": self._sum.hexdigest()}
        self._file.write(json.dumps(end, separators=(",", ":")).encode() + b"\n")
        self._file.close()


def declare(log: Path, sale: int, buyers: int) -> None:
    """Add this run to the manifest in the log's folder, before it begins; several processes may do so at once."""
    log.parent.mkdir(parents=True, exist_ok=True)
    path = log.parent / MANIFEST
    with path.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        manifest: dict[str, Any] = {"version": VERSION, "runs": [], "off": ["analytics"], "faults": []}
        if path.exists():
            manifest = json.loads(path.read_text())
        manifest["runs"].append({"log": log.name, "sale": sale, "buyers": buyers, "started_at_ms": now_ms()})
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(manifest, indent=1) + "\n")
        fresh.replace(path)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
