"""What all histories so far add up to. Each run continues where the last one ended, so totals grow over many nights."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.simulation.kinds import KINDS, Counts


@dataclass
class Total:
    """The next history has the seed `histories`, as long as none failed before it."""

    histories: int = 0
    events: int = 0
    faults: int = 0
    elections: int = 0
    cpu_seconds: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    """By seed, as JSON wants its keys."""

    def add(self, seed: int, counts: Counts | None, failure: str, seconds: float) -> None:
        self.histories += 1
        self.cpu_seconds += seconds
        if counts is None:
            self.failed[str(seed)] = failure
            return
        self.events += counts.events
        self.faults += counts.faults
        self.elections += counts.elections

    def next_goal(self, step: int) -> int:
        """An interrupted run goes on to where it wanted to go, and a complete one is followed by another."""
        return (self.histories // step + 1) * step


class Totals:
    def __init__(self, path: Path) -> None:
        self._path = path
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.by_kind = {kind.name: Total(**known.get(kind.name, {})) for kind in KINDS}

    def save(self) -> None:
        """The page lies beside the numbers."""
        numbers = {name: asdict(total) for name, total in self.by_kind.items()}
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
        temporary.replace(self._path)
        self._path.with_suffix(".md").write_text(self.page(), encoding="utf-8")

    def page(self) -> str:
        rows = [
            f"| {kind.name} | {kind.what} | {total.histories:,} | {total.events:,} | {total.faults:,} "
            f"| {total.elections:,} | {total.cpu_seconds / 3600:.2f} | {', '.join(total.failed) or 'none'} |"
            for kind, total in ((kind, self.by_kind[kind.name]) for kind in KINDS)
        ]
        return "\n".join(
            [
                "# Simulated histories so far",
                "",
                "Added up by `make night`, in which each run continues with the next seeds. "
                "[simulations.md](../simulations.md) says what a history is and what is checked.",
                "",
                "| simulation | of | histories | events | faults | elections | CPU hours | failing seeds |",
                "|---|---|---:|---:|---:|---:|---:|---|",
                *rows,
                "",
                "A failing seed stays here until the fault is repaired and its line is removed from "
                "`simulations.json` by hand.",
                "",
            ]
        )
