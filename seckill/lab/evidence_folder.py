"""Shell: the manifest and the log of injected faults in a stack's evidence folder, which `seckill report` reads."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loadtest.client_log import update_manifest


class EvidenceFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def declare(self, *faults: str, off: Sequence[str] = ("analytics",)) -> None:
        """List planned faults before they happen, so that the report fails if one does not happen; `off` names the
        sources that this run does not have."""

        def add(manifest: dict[str, Any]) -> None:
            manifest["faults"] += faults
            manifest["off"] = list(off)

        update_manifest(self.path, add)

    def note_fault(self, fault: str, began_ms: int, **fields: Any) -> None:
        """Record an injected fault that began at this time and has just ended."""
        line = {"at_ms": began_ms, "until_ms": time.time_ns() // 1_000_000, "fault": fault, **fields}
        with (self.path / "faults.jsonl").open("a") as log:
            log.write(json.dumps(line) + "\n")

    def note_instant(self, fault: str, what: str) -> None:
        """Record a fault that takes no time, such as a kill."""
        self.note_fault(fault, time.time_ns() // 1_000_000, what=what)
