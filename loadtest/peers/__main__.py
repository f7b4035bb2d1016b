"""Shell: `python -m loadtest.peers`: the designs one after the other, under one crowd; a table, JSON, markdown.

Exit: 0 if all designs could be measured, whatever they broke; 1 if one could not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from loadtest.peers.designs import DESIGNS
from loadtest.peers.measuring import OF_THE_LOG, Measured, measure
from seckill.demo.stage import DemoFault
from seckill.stack.control import StackFault

WIDE = 160
"""Of a file: nobody's window."""
HEAD = (
    "design", "accepted/s", "of the full one", "p50 ms", "p99 ms", "all decided after s", "accepted and lost",
    "invariants broken",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.add and not chosen.json:
        parser.error("--add is about the file that --json names")
    console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else WIDE)
    found = _kept(chosen.json) if chosen.add and chosen.json.exists() else {}
    failed = []
    with tempfile.TemporaryDirectory(prefix="peers-") as made:
        folder = chosen.data or Path(made)
        for turn in range(chosen.repeat):  # interleaved: what the machine does meanwhile hits all of them
            for name in chosen.design or DESIGNS:
                runs = found.setdefault(name, [])
                console.print(f"{name} ({turn + 1} of {chosen.repeat}) …", highlight=False)
                try:
                    measured = measure(
                        DESIGNS[name], folder / f"{name}-{len(runs) + 1}", chosen.units, chosen.buyers, chosen.over,
                        fault=not chosen.no_fault,
                    )  # fmt: skip
                except (DemoFault, StackFault) as fault:
                    failed.append(name)
                    console.print(f"[red]{name}:[/] {fault}", highlight=False)
                    continue
                runs.append(measured)
                console.print(
                    f"  {measured.accepted_a_second:,.0f}/s, lost {measured.lost}, broken: {measured.breaks}",
                    highlight=False,
                )
    rows = [_row(name, found[name], found.get("full", [])) for name in DESIGNS if found.get(name)]
    table = Table(*HEAD, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    about = _about(chosen, max(map(len, found.values())))
    console.print(about, highlight=False)
    if chosen.json:
        kept = {name: [asdict(run) for run in runs] for name, runs in found.items()}
        chosen.json.write_text(json.dumps({"version": 1, "about": about, "runs": kept}, indent=1) + "\n")
    if chosen.markdown:
        chosen.markdown.write_text(_page(rows, about))
    if failed:
        print(f"not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _kept(path: Path) -> dict[str, list[Measured]]:
    return {name: [Measured(**run) for run in runs] for name, runs in json.loads(path.read_text())["runs"].items()}


def _row(name: str, runs: list[Measured], full: list[Measured]) -> tuple[str, ...]:
    """Medians; every invariant that was broken in any of the runs, with how often at most."""
    rate = statistics.median(run.accepted_a_second for run in runs)
    base = statistics.median(run.accepted_a_second for run in full) if full else 0.0
    broken: dict[str, int] = {}
    for run in runs:
        for invariant, count in run.broken.items():
            broken[invariant] = max(count, broken.get(invariant, 0))
    return (
        name,
        f"{rate:,.0f}",
        f"{rate / base:.2f}" if base else "",
        f"{statistics.median(run.p50_ms for run in runs):,.0f}",
        f"{statistics.median(run.p99_ms for run in runs):,.0f}",
        f"{statistics.median(run.decided_s for run in runs):,.1f}",
        f"{max(run.lost for run in runs):,}",
        ", ".join(f"{invariant} ×{count:,}" for invariant, count in broken.items()) or "none",
    )


def _about(chosen: argparse.Namespace, runs: int) -> str:
    fault = "no fault" if chosen.no_fault else "whoever decides killed with -9 and Redis emptied after a third of it"
    busy = os.getloadavg()[0]
    return (
        f"{chosen.buyers:,} buyers for {chosen.units:,} units within {chosen.over:g} s, {fault}; medians of "
        f"{runs}; {os.cpu_count()} cores, load {busy:.1f} at the end, Python {platform.python_version()}"
    )


def _page(rows: Sequence[tuple[str, ...]], about: str) -> str:
    lines = [
        "# The designs beside each other",
        "",
        f"`python -m loadtest.peers`. {about}.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|" + "---|" * len(HEAD),
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        *(f"* **{design.name}**: {design.says}." for design in DESIGNS.values()),
        "",
        "The same crowd, the same contract, the same report. Of designs without a log of requests these cannot be",
        f"asked: {', '.join(sorted(OF_THE_LOG, key=lambda name: int(name[1:])))}; that an accepted request is decided",
        "at all is in the table instead.",
        "",
    ]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.peers", description="Other designs of the purchase, under the same crowd and report."
    )
    parser.add_argument("--design", action="append", choices=list(DESIGNS), help="only this one; may be given again")
    parser.add_argument("--units", type=int, default=200)
    parser.add_argument("--buyers", type=int, default=1500)
    parser.add_argument("--over", type=float, default=6.0, metavar="SECONDS", help="they arrive over so long")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--no-fault", action="store_true", help="an undisturbed sale")
    parser.add_argument("--data", type=Path, help="keep the stacks' folders in this one")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--add", action="store_true", help="to the runs that are in that file: they count, too")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
