"""Shell: `python -m loadtest.benchmarks.report`: writes a whole sale into its own servers and times the report.

The report runs as a user's command in its own process and reads the real stores. A figure counts only if the verdict is
PASS. Time, CPU and memory are the operating system's figures for that process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from loadtest.benchmarks.decisions.servers import BenchmarkServers
from loadtest.benchmarks.report import stores
from loadtest.benchmarks.report.sale import SampleSale

MIB = 1024 * 1024
GOAL_S = 60.0


class Run(NamedTuple):
    """One run of the report."""

    took_s: float
    cpu_s: float
    memory_mib: float


class Row(NamedTuple):
    requests: int
    items: int  # checked by all invariants
    read: int  # rows, records and lines
    runs: tuple[Run, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.benchmarks.report", description=__doc__)
    parser.add_argument(
        "--requests", type=int, nargs="+", default=[100_000], help="sizes to measure; several show how it grows"
    )
    parser.add_argument("--repeat", type=int, default=3, help="reports for each size (default: 3)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the servers' data and logs in this folder")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to a file")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write a page")
    chosen = parser.parse_args(arguments)
    if min(chosen.requests) < 100 or chosen.repeat < 1:
        parser.error("--requests are at least 100, --repeat is at least 1")
    if chosen.keep is not None and chosen.keep.exists():
        parser.error(f"{chosen.keep} exists already; name another folder")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # runs every `finally`, so no server is left behind
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="report-", ignore_cleanup_errors=True) as name:
        folder = chosen.keep or Path(name)
        rows = [_measure(folder / str(size), size, chosen.repeat, console) for size in sorted(chosen.requests)]
    about = _about()
    Console().print(_table(rows))
    for what, value in about.items():
        print(f"{what}: {value}")
    if chosen.json:
        chosen.json.write_text(json.dumps({"about": about, "rows": [row._asdict() for row in rows]}, indent=1) + "\n")
    if chosen.markdown:
        chosen.markdown.write_text(_page(rows, about), encoding="utf-8")
    return 0


def _measure(folder: Path, requests: int, repeat: int, console: Console) -> Row:
    with BenchmarkServers(folder, 0) as servers:
        sale = SampleSale(requests, time.time_ns() // 1_000_000)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}"))
        with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
            tasks: dict[str, TaskID] = {}

            def tell(what: str, more: int) -> None:
                if what not in tasks:
                    tasks[what] = progress.add_task(f"writing {what}", total=None)
                progress.advance(tasks[what], more)

            stores.write(sale, servers.environment(), folder, tell)
        runs = []
        for _ in range(repeat):
            run, report = _report(servers, folder)
            runs.append(run)
            console.print(f"{requests:,} requests: {run.took_s:.1f} s, {run.memory_mib:,.0f} MiB", highlight=False)
    read = sum(sum(source["counts"].values()) for source in report["sources"].values())
    looked_at = sum(each["looked_at"] for each in report["invariants"])
    return Row(requests, looked_at, read, tuple(runs))


def _report(servers: BenchmarkServers, folder: Path) -> tuple[Run, Any]:
    """Run `seckill report` and measure its process; a verdict other than PASS ends the benchmark."""
    report_path = folder / "report.json"
    command = [sys.executable, "-m", "seckill.cli", "report", "--data", str(folder), "--json", str(report_path)]
    began = time.monotonic()
    with (folder / "report.txt").open("w") as output:
        process = subprocess.Popen(command, env=servers.environment(), stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
    took_s = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the report ended with {process.returncode}:\n{(folder / 'report.txt').read_text()[-4000:]}")
    return Run(took_s, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / MIB), json.loads(report_path.read_text())


def _about() -> dict[str, str]:
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f} at the end",
        "versions": f"Python {platform.python_version()}, commit {commit or 'unknown'}",
        "run": time.strftime("%Y-%m-%d"),
    }


def _cells(row: Row) -> tuple[str, ...]:
    took = median(run.took_s for run in row.runs)
    memory = max(run.memory_mib for run in row.runs)
    return (
        f"{row.requests:,}", f"{row.read:,}", f"{row.items:,}",
        f"{took:.1f} ({min(run.took_s for run in row.runs):.1f}–{max(run.took_s for run in row.runs):.1f})",
        f"{median(run.cpu_s for run in row.runs):.1f}", f"{took / row.requests * 1e6:.0f}",
        f"{memory:,.0f}", f"{memory * MIB / row.requests / 1000:.1f}",
    )  # fmt: skip


HEAD = (
    "requests", "read", "checked", "seconds", "CPU, s", "µs per request", "peak memory, MiB", "kB per request",
)  # fmt: skip


def _table(rows: Sequence[Row]) -> Table:
    table = Table(*HEAD, box=None)
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _page(rows: Sequence[Row], about: dict[str, str]) -> str:
    lines = [
        "# How long the consistency report takes", "",
        "Written by `python -m loadtest.benchmarks.report`; run it again to compare. A whole sale is written into"
        " new servers (mqcore, Postgres, Redis, logs), then `seckill report` runs on it as a user's command. “seconds”"
        " is the time from the start of the process to its end, “read” counts records, rows and lines, and “checked”"
        f" counts the items that all invariants checked. The goal is a million requests in under {GOAL_S:.0f} s.", "",
        *(f"* {name}: {text}" for name, text in about.items()), "",
        "| " + " | ".join(HEAD) + " |", "|" + "---:|" * len(HEAD),
        *("| " + " | ".join(_cells(row)) + " |" for row in rows),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
