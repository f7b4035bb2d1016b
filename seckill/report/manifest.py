"""Shell: read the manifest of a run: the logs of its crowds, the sources that are off, and the planned faults."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seckill.report.evidence_sources import Source

NAME = "manifest.json"
VERSION = 1
OFF = {
    "analytics": Source.STATISTICS,
    "crowd": Source.CROWD,
    "payments": Source.PAYMENTS,
    "notifications": Source.MESSAGES,
    "redis": Source.GATE,
}
"""The names that a manifest may list under `off`, and the source that each one removes."""


class BadManifest(ValueError):
    """The file is not a manifest, or its version is unknown."""


@dataclass(frozen=True, slots=True)
class Manifest:
    folder: Path
    logs: tuple[str, ...] = ()
    declared_off: frozenset[Source] = frozenset()
    faults: tuple[str, ...] = ()
    is_there: bool = True
    runs: tuple[dict[str, Any], ...] = ()  # as declared: log, sale, buyers, seed, command


def read_manifest(folder: Path) -> Manifest:
    """Without a manifest nothing is declared off, so every source is required."""
    try:
        text = (folder / NAME).read_text()
    except FileNotFoundError:
        return Manifest(folder, is_there=False)
    try:
        content = json.loads(text)
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']}")
        off = frozenset(OFF[name] for name in content["off"])
        runs = tuple(dict(run) for run in content["runs"])
        return Manifest(folder, tuple(run["log"] for run in runs), off, tuple(content["faults"]), runs=runs)
    except (ValueError, KeyError, TypeError) as error:
        raise BadManifest(f"{folder / NAME}: {error!r}") from error
