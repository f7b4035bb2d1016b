"""Run one target: `python -m tests.fuzz NAME [SECONDS]`. Uses atheris if it is installed."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from pathlib import Path

try:
    import atheris
except ImportError:
    atheris = None

with atheris.instrument_imports(include=["mqcore"]) if atheris else contextlib.nullcontext():
    from tests.fuzz.targets import TARGETS, Target

from tests.fuzz.plain import search


def main(name: str, seconds: int) -> None:
    target = TARGETS[name]
    if atheris is None:
        _plainly(target, seconds)
        return
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(target.seeds()):
            (Path(corpus) / str(number)).write_bytes(seed)
        atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", "-max_len=4096", corpus], target.run)
        atheris.Fuzz()


def _plainly(target: Target, seconds: int) -> None:
    started, executions = time.monotonic(), 0
    while time.monotonic() - started < seconds:
        search(target, 10_000, seed=executions)
        executions += 10_000
    print(f"{executions} executions, {executions / (time.monotonic() - started):.0f} a second, nothing found")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python -m tests.fuzz {'|'.join(TARGETS)} [SECONDS]")
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60)
