"""Shell: `python -m loadtest.designs`: all designs under one crowd; a table, JSON and Markdown.

Exit code 0 if every design could be measured, whatever broke in it, else 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from loadtest.designs.measurement import NEEDS_A_LOG, Measurement, measure
from loadtest.designs.variants import DESIGNS
from seckill.lab.lab_stack import ExperimentFailed
from seckill.stack.control import StackFault

VERSION = 3
FILE_WIDTH_COLUMNS = 160
OURS = "full"
FALSE_SOLD_OUT = "I6"  # the books agree with a false "sold out"
HEAD = (
    "design", "oversold", "lost", "wrong answers", "kill -9", "orders/s", "invariants broken", "p50 ms", "p99 ms",
)  # fmt: skip
Runs = dict[str, list[Measurement]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.add and not options.json:
        parser.error("--add needs --json, the file to which it adds")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a terminated run stops its stack
    console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else FILE_WIDTH_COLUMNS)
    runs = _load(options.json) if options.add and options.json.exists() else {}
    with tempfile.TemporaryDirectory(prefix="designs-") as temporary:
        failed = _measure_all(options, options.data or Path(temporary), runs, console)
    rows = [_cells(name, runs[name]) for name in DESIGNS if runs.get(name)]
    table = Table(*HEAD, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    about = _about(options, max((len(each) for each in runs.values()), default=0))
    console.print(about, highlight=False)
    if options.json:
        saved = {name: [run.as_json() for run in each] for name, each in runs.items()}
        options.json.write_text(json.dumps({"version": VERSION, "about": about, "runs": saved}, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(_page(rows, about), encoding="utf-8")
    if failed:
        print(f"not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _measure_all(options: argparse.Namespace, folder: Path, runs: Runs, console: Console) -> list[str]:
    """The designs take turns, so that other load on the machine affects all of them; the names of those that failed."""
    failed = []
    for repetition in range(options.repeat):
        for name in options.design or DESIGNS:
            done = runs.setdefault(name, [])
            console.print(f"{name} ({repetition + 1} of {options.repeat}) …", highlight=False)
            try:
                run = measure(
                    DESIGNS[name], folder / f"{name}-{len(done) + 1}", options.units, options.buyers, options.over,
                    fault=not options.no_fault,
                )  # fmt: skip
            except (ExperimentFailed, StackFault, TimeoutError) as fault:
                failed.append(name)
                console.print(f"[red]{name}:[/] {fault}", highlight=False)
                continue
            done.append(run)
            console.print(
                f"  oversold {run.oversold}, lost {run.lost}, wrong answers {run.wrong_answers}, "
                f"{run.orders_per_s:,.0f} orders/s, broken: {_invariants(run.broken)}",
                highlight=False,
            )
    return failed


def _load(path: Path) -> Runs:
    saved = json.loads(path.read_text())
    if saved["version"] != VERSION:
        raise SystemExit(f"{path} was written by another version of this program; remove it or name another file")
    return {name: [Measurement(**run) for run in runs] for name, runs in saved["runs"].items()}


def _cells(name: str, runs: Sequence[Measurement]) -> tuple[str, ...]:
    """Failures are the worst of all runs, speeds are medians."""
    broken: dict[str, int] = {}
    for run in runs:
        for invariant, count in run.broken.items():
            broken[invariant] = max(count, broken.get(invariant, 0))
    return (
        name,
        f"{max(run.oversold for run in runs):,}",
        f"{max(run.lost for run in runs):,}",
        f"{max(run.wrong_answers + run.broken.get(FALSE_SOLD_OUT, 0) for run in runs):,}",
        f"{max(run.cut for run in runs):,} cut, {max(run.standstill_s for run in runs):.1f} s",
        f"{statistics.median(run.orders_per_s for run in runs):,.0f}",
        _invariants(broken),
        f"{statistics.median(run.p50_ms for run in runs):,.0f}",
        f"{statistics.median(run.p99_ms for run in runs):,.0f}",
    )


def _invariants(broken: dict[str, int]) -> str:
    return ", ".join(f"{invariant} ×{count:,}" for invariant, count in broken.items()) or "none"


def _about(options: argparse.Namespace, runs: int) -> str:
    fault = (
        "no fault"
        if options.no_fault
        else "the process that decides killed with -9 and Redis emptied after a third of the requests"
    )
    return (
        f"{options.buyers:,} buyers for {options.units:,} units within {options.over:g} s, {fault}; runs of each"
        f" design: {runs}, with the worst count and the median speed; {os.cpu_count()} cores,"
        f" load {os.getloadavg()[0]:.1f} at the end, Python {platform.python_version()}"
    )


def _page(rows: Sequence[tuple[str, ...]], about: str) -> str:
    lines = [
        "# What breaks in other designs",
        "",
        f"Written by `python -m loadtest.designs`. {about}.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|---|--:|--:|--:|---|--:|---|--:|--:|",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        *(f"* **{design.name}**: {design.summary}." for design in DESIGNS.values()),
        "",
        "* *oversold*: the most units that buyers held at the same time, beyond those of the sale.",
        "* *lost*: requests that were accepted (202) and never decided.",
        "* *wrong answers*: requests whose buyers were shown an outcome that the books contradict, or “sold out” while"
        f" there were enough units ({FALSE_SOLD_OUT}).",
        "* *kill -9*: purchase calls that got no response, so their buyers had to ask again, and the seconds from the"
        " kill to the next decision.",
        "* *orders/s*: from the first attempt until as many orders were placed as the sale has units.",
        "* *invariants broken*: violations that `seckill report` found. It cannot check these for designs without a log"
        f" of requests: {', '.join(sorted(NEEDS_A_LOG, key=lambda name: int(name[1:])))}.",
        "",
    ]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.designs",
        description="Compare designs of the purchase: the same crowd, the same fault, the same report.",
    )
    parser.add_argument("--design", action="append", choices=list(DESIGNS), help="only this design; may be repeated")
    parser.add_argument("--units", type=int, default=500)
    parser.add_argument("--buyers", type=int, default=2000)
    parser.add_argument("--over", type=float, default=3.0, metavar="SECONDS", help="how long the buyers take to arrive")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each design (default: 3)")
    parser.add_argument("--no-fault", action="store_true", help="kill nothing and keep Redis")
    parser.add_argument("--data", type=Path, help="keep the stacks' data in this folder")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--add", action="store_true", help="add to the runs that the JSON file already has")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
