"""Samples of the resources that a stack uses, and whether any of them grows.

Memory, open files and the tables of work in progress must stay flat. What the system stores for each purchase (the
decision, ledger entries, records in topics) grows until retention removes it, so there the bytes per purchase must stay
flat.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

MIB = 1 << 20
WORK_TABLES = frozenset(
    {
        "streams_outbox", "streams_offset", "streams_switch", "streams_slot_map", "streams_divert",
        "streams_producer_lease", "inventory_gate_sync", "notifications_channel", "orders_provider_log",
    }
)  # fmt: skip


class Process(NamedTuple):
    rss: int
    files: int


@dataclass(frozen=True, slots=True)
class Sample:
    at_s: float
    purchases: int  # decided so far
    services: Mapping[str, Process]
    tables: Mapping[str, int]  # bytes, with indexes
    redis: int
    topics: int


class Limit(NamedTuple):
    """How much a median may exceed an earlier one: by a share, and by a constant that covers noise."""

    share: float
    slack: float


MEMORY, FILES, WORK, KEPT = Limit(0.10, 8 * MIB), Limit(0.25, 48), Limit(0.20, 4 * MIB), Limit(0.25, 256)


class Series(NamedTuple):
    """`middle` and `last` are medians of the second and the last third; in the first third, caches still fill up."""

    what: str
    unit: str
    middle: float
    last: float
    limit: Limit

    @property
    def grows(self) -> bool:
        return self.last > self.middle * (1 + self.limit.share) + self.limit.slack


def judge(samples: Sequence[Sample]) -> list[Series]:
    """Needs at least six samples."""
    found: dict[tuple[str, str, Limit], list[tuple[float, float]]] = defaultdict(list)
    for sample in samples:
        for name, process in sample.services.items():
            data = sample.redis if name == "redis" else 0  # judged below, by its bytes for each purchase
            found[f"{name}: memory", "bytes", MEMORY].append((sample.at_s, max(0, process.rss - data)))
            found[f"{name}: open files", "files", FILES].append((sample.at_s, process.files))
        kept = {name: size for name, size in sample.tables.items() if name not in WORK_TABLES}
        kept |= {"Redis": sample.redis, "topics on disk": sample.topics}
        for name in sample.tables.keys() & WORK_TABLES:
            found[name, "bytes", WORK].append((sample.at_s, sample.tables[name]))
        for name, size in kept.items():
            found[name, "bytes a purchase", KEPT].append((sample.at_s, size / max(1, sample.purchases)))
    first_s, last_s = samples[0].at_s, samples[-1].at_s
    edges = [first_s + (last_s - first_s) * share for share in (1 / 3, 2 / 3)]
    series = []
    for (what, unit, limit), points in sorted(found.items()):
        middle = [value for at_s, value in points if edges[0] <= at_s < edges[1]]
        last = [value for at_s, value in points if at_s >= edges[1]]
        if middle and last:
            series.append(Series(what, unit, median(middle), median(last), limit))
    return series


# ── measurements ─────────────────────────────────────────────────────────────────────────────────


def processes(groups: Mapping[str, int]) -> dict[str, Process]:
    """Memory and open files of each process group; groups that have ended are left out."""
    members: dict[int, list[Path]] = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue  # the process ended after the listing
            members[int(stat.rpartition(")")[2].split()[2])].append(folder)
    found = {}
    for name, group in groups.items():
        try:
            rss = sum(_rss(folder) for folder in members[group])
            files = sum(len(list((folder / "fd").iterdir())) for folder in members[group])
        except OSError:
            continue
        if rss:
            found[name] = Process(rss, files)
    return found


def _rss(folder: Path) -> int:
    """Shared pages count in proportion (Pss), because Postgres's processes share most of theirs."""
    for line in (folder / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def folder_bytes(folder: Path) -> int:
    """Disk space of all files in the folder; files deleted during the walk count as 0."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except OSError:
            continue
    return total
