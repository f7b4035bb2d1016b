"""What the buyers saw: one JSON object a line; the last one counts and sums the others. And the manifest beside it."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

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

    def close(self) -> None:
        end = {"at_ms": now_ms(), "what": "end", "count": self._count, "sha256": self._sum.hexdigest()}
        self._file.write(json.dumps(end, separators=(",", ":")).encode() + b"\n")
        self._file.close()


def declare(log: Path, sale: int, buyers: int) -> None:
    """Add this run to the manifest in the log's folder, before it begins."""
    path = log.parent / MANIFEST
    manifest: dict[str, Any] = {"version": VERSION, "runs": [], "off": ["analytics"], "faults": []}
    if path.exists():
        manifest = json.loads(path.read_text())
    manifest["runs"].append({"log": log.name, "sale": sale, "buyers": buyers, "started_at_ms": now_ms()})
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(manifest, indent=1) + "\n")
    fresh.replace(path)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
