"""What a run declares at its start: the logs of its crowds, the sources that are off, the faults that are planned."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "manifest.json"
VERSION = 1
OFF = {"analytics": "S", "crowd": "C", "payments": "P", "notifications": "N", "redis": "R"}
"""Names that may be declared off, and the source each takes away."""


class BadManifest(ValueError):
    """Not a manifest, or of a version that is unknown here."""


@dataclass(frozen=True, slots=True)
class Manifest:
    folder: Path
    logs: tuple[str, ...] = ()
    off: frozenset[str] = frozenset()  # letters of sources
    faults: tuple[str, ...] = ()
    is_there: bool = True
    runs: tuple[dict[str, Any], ...] = ()  # each with its log; sale, buyers, seed, command are told to the reader


def read(folder: Path) -> Manifest:
    """No manifest declares nothing: then all sources are wanted."""
    try:
        text = (folder / NAME).read_text()
    except FileNotFoundError:
        return Manifest(folder, is_there=False)
    try:
        said = json.loads(text)
        if said["version"] != VERSION:
            raise ValueError(f"version {said['version']}")
        off = frozenset(OFF[name] for name in said["off"])
        runs = tuple(dict(run) for run in said["runs"])
        return Manifest(folder, tuple(run["log"] for run in runs), off, tuple(said["faults"]), runs=runs)
    except (ValueError, KeyError, TypeError) as error:
        raise BadManifest(f"{folder / NAME}: {error!r}") from error
