"""Shell: the machine and the commit of a benchmark, and the memory of a process. Linux only."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def proportional_mb(pid: int) -> float:
    """Memory that several processes share counts for each of them in parts."""
    [line] = [line for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() if line.startswith("Pss:")]
    return int(line.split()[1]) / 1000


def hardware() -> dict[str, str]:
    """What a reader needs to interpret the figures, without anything that identifies the machine."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "cpu": model,
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory * 1024 / 1e9:.0f} GB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def commit() -> str:
    """The measured commit, with a + if files of the project differ from it."""
    root = Path(__file__).parents[2]
    try:
        name = subprocess.run(
            ["git", "rev-parse", "--short=10", "HEAD"], cwd=root, capture_output=True, text=True, timeout=10
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--", "mqcore", "seckill", "gateway", "analytics", "loadtest"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
        ).stdout.strip()
    except OSError:
        return "unknown"
    return (name or "unknown") + ("+" if changed else "")


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
