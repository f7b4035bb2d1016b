"""The log of one crowd process: one JSON object per request; the last line has the count and a checksum of the others.

The process lists its log in the manifest before it sends the first request. If the process is killed, the log stays
listed but lacks its last line, so the report knows that this evidence is incomplete.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loadtest.buyers import Call, Response, log_fields

VERSION = 1
MANIFEST = "manifest.json"


class ClientLog:
    """Writes the log. Only `close` writes the last line, so a log without it is incomplete."""

    def __init__(self, path: Path, **head: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("xb")  # fails if the file exists: evidence is never overwritten
        self._sum = hashlib.sha256()
        self._count = 0
        self.write("begin", version=VERSION, **head)

    def write(self, what: str, at_ms: int | None = None, **fields: Any) -> None:
        record = {"at_ms": now_ms() if at_ms is None else at_ms, "what": what, **fields}
        line = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        self._sum.update(line)
        self._count += 1
        self._file.write(line)

    def record(self, call: Call, began_ms: int, response: Response) -> None:
        self.write(call.what, began_ms, took_ms=now_ms() - began_ms, **dict(log_fields(call, response)))

    def flush(self) -> None:
        """Let other programs see the lines written so far."""
        self._file.flush()

    def close(self) -> None:
        end = {"at_ms": now_ms(), "what": "end", "count": self._count, "sha256": self._sum.hexdigest()}
        self._file.write(json.dumps(end, separators=(",", ":")).encode() + b"\n")
        self._file.close()


def declare(log: Path, sale: int, buyers: int) -> None:
    """Add this run to the manifest in the log's folder before it begins."""
    run = {"log": log.name, "sale": sale, "buyers": buyers, "started_at_ms": now_ms()}
    update_manifest(log.parent, lambda manifest: manifest["runs"].append(run))


def update_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest, or a new one, and replace the file in one step; several processes may do so at once."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / MANIFEST
    with path.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        manifest: dict[str, Any] = {"version": VERSION, "runs": [], "off": ["analytics"], "faults": []}
        if path.exists():
            manifest = json.loads(path.read_text())
        change(manifest)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(manifest, indent=1) + "\n")
        fresh.replace(path)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
