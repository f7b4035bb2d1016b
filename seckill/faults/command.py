"""Shell: `seckill faults list`, `seckill faults run NAME … | all`. Exit 0 only if each behaved as marked."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

import seckill.faults.cases  # noqa: F401  # fills the table
from seckill.consistency.verdicts import Verdict, overall
from seckill.faults import chronicle, curve, growth, page
from seckill.faults.case import CASES, Case, in_order
from seckill.faults.running import Row, Runner, sharing
from seckill.faults.soak import Soak

WIDE = 200
FIRST_PORT = 25_000
NIGHT = "chaos"  # too long for every run of all; it is run by its name
DATA = Path("var/faults")
SOAK = Path("var/soak")


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    return int(chosen.run(chosen))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="seckill faults", description="Break a running sale, and ask the books.")
    words = parser.add_subparsers(dest="sub", required=True, metavar="WORD")
    listing = words.add_parser("list", help="every case, what it needs and what the report must say then")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(run=_list)
    run = words.add_parser("run", help="run cases on a stack of their own; exit 0 if each behaved as marked")
    run.add_argument("name", nargs="+", help="names or numbers of cases, or all (everything but chaos)")
    run.add_argument("--data", type=Path, default=DATA, help=f"folder for stacks and results (default: {DATA})")
    run.add_argument("--resume", action="store_true", help="leave out what has behaved in this folder already")
    run.add_argument("--seed", type=int, default=1, help="of what is left to chance (default: 1)")
    run.add_argument("--scale", type=float, default=1.0, metavar="F", help="so many times the buyers and units")
    run.add_argument(
        "--together", type=int, default=1, metavar="N",
        help="so many cases share one report: quicker, but what it finds is then said of all of them (default: 1)",
    )  # fmt: skip
    run.add_argument("--first-port", type=int, default=FIRST_PORT, metavar="N", help="ports are taken from here on")
    run.add_argument("--write", type=Path, metavar="STEM", help="results and invariants as STEM.md and STEM.json, too")
    run.set_defaults(run=_run)
    soak = words.add_parser(
        "soak", help="sale after sale under kills and freezes; exit 0 if the report passes and nothing grows"
    )
    soak.add_argument("--minutes", type=float, default=30.0, metavar="N", help="how long (default: 30)")
    soak.add_argument(
        "--data", type=Path, default=SOAK, help=f"a new folder for the stack and results (default: {SOAK})"
    )
    soak.add_argument("--seed", type=int, default=1, help="of what is left to chance (default: 1)")
    soak.add_argument("--first-port", type=int, default=FIRST_PORT, metavar="N", help="ports are taken from here on")
    soak.add_argument("--write", type=Path, metavar="STEM", help="verdicts and curves as STEM.md and STEM.svg, too")
    soak.set_defaults(run=_soak)
    return parser


def _list(chosen: argparse.Namespace) -> int:
    if chosen.json:
        names = ("number", "name", "title", "expected", "needs")
        print(json.dumps([{name: getattr(case, name) for name in names} for case in in_order()], indent=1))
        return 0
    table = Table("", "case", "must say", "what happens", box=None)
    for case in in_order():
        said = f"[dim]{case.needs}[/]" if case.act is None else case.expected
        table.add_row(case.number, case.name, said, escape(case.title))
    _console().print(table)
    return 0


def _run(chosen: argparse.Namespace) -> int:
    try:
        cases = _chosen(chosen.name)
    except KeyError as unknown:
        print(f"seckill faults: no case {unknown}; `seckill faults list` shows them", file=sys.stderr)
        return 3
    chosen.data.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    console = _console()
    runner = Runner(chosen.data, chosen.first_port, chosen.seed, chosen.scale, lambda text: _tell(console, f"  {text}"))
    rows = {row.name: row for row in runner.kept()} if chosen.resume else {}
    left = [case for case in cases if case.name not in rows or not rows[case.name].behaved]
    try:
        _each(runner, sharing(left, max(1, chosen.together)), rows, console)
    except KeyboardInterrupt:
        print("seckill faults: interrupted; the same words and --resume go on from here", file=sys.stderr)
        return 3
    finally:
        runner.leave()
    done = [rows[case.name] for case in cases]
    written = chosen.data / "faults.html"
    written.write_text(page.written(done, chosen.seed, chosen.scale), encoding="utf-8")
    if chosen.write:
        words = f"seckill faults run {' '.join(chosen.name)} --write {chosen.write}"
        chronicle.write(done, chosen.data, chosen.write, words, chosen.scale)
    console.print(_table(done))
    bad = [row for row in done if not row.behaved]
    verdict = f"{len(bad)} of {len(done)} did not behave" if bad else f"all {len(done)} behaved as marked"
    console.print(f"{verdict} · {written}", highlight=False, soft_wrap=True)
    return 1 if bad else 0


def _soak(chosen: argparse.Namespace) -> int:
    if chosen.minutes <= 0 or (chosen.data / "stack").exists():
        why = (
            "--minutes must be above 0"
            if chosen.minutes <= 0
            else f"{chosen.data} holds an earlier soak; name another folder"
        )
        print(f"seckill faults: {why}", file=sys.stderr)
        return 3
    chosen.data.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    console = _console()
    soak = Soak(chosen.data, chosen.first_port, chosen.seed, lambda text: _tell(console, f"  {text}"))
    try:
        judged = soak.run(chosen.minutes)
    except KeyboardInterrupt:
        print("seckill faults: interrupted", file=sys.stderr)
        return 3
    finally:
        soak.end()
    series = growth.judge(soak.samples)
    growing, verdict = [each for each in series if each.grows], overall(judged)
    if chosen.write:
        words = f"seckill faults soak --minutes {chosen.minutes:g} --seed {chosen.seed} --write {chosen.write}"
        counts = {
            "minutes": f"{chosen.minutes:g}", "sales": soak.sales, "killed": soak.killed.total(),
            "frozen": soak.frozen.total(), "samples": len(soak.samples), "report": verdict.value,
        }  # fmt: skip
        curve.write(chosen.write, words, counts, judged, series, soak.samples)
    for each in growing:
        _tell(console, f"grows: {each.what}, from {each.middle:,.0f} to {each.last:,.0f} {each.unit}")
    _tell(console, f"{soak.sales} sales, {soak.killed.total()} killed, {soak.frozen.total()} frozen")
    _tell(console, f"report: {verdict.value} · {len(series)} curves, {len(growing)} grow · {chosen.data / 'reports'}")
    return 1 if growing or verdict is not Verdict.PASS else 0


def _each(runner: Runner, groups: Sequence[Sequence[Case]], rows: dict[str, Row], console: Console) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as progress:
        done, total = 0, sum(map(len, groups))
        task = progress.add_task("faults", total=total)
        for cases in groups:
            progress.update(task, description=" ".join(case.name for case in cases[:3]) + " …" * (len(cases) > 3))
            came_of_it = runner.run(cases)
            rows |= {row.name: row for row in came_of_it}
            runner.keep(list(rows.values()))
            for row in came_of_it:
                done += 1
                marked = "as marked" if row.behaved else f"NOT as marked: {row.why}"
                _tell(console, f"{done}/{total} {row.name}: {row.verdict}, {marked} ({row.took_s:.0f} s)")
            progress.advance(task, len(cases))


def _chosen(names: Sequence[str]) -> list[Case]:
    """By name or number; `all` are those that take minutes."""
    by_number = {case.number: case for case in CASES.values()}
    chosen: dict[str, Case] = {}
    for name in names:
        found = [CASES.get(name) or by_number[name]] if name != "all" else in_order()
        chosen |= {case.name: case for case in found if name != "all" or case.name != NIGHT}
    return list(chosen.values())


def _tell(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _interrupt(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


def _table(rows: Sequence[Row]) -> Table:
    table = Table(
        "", "case", "what was injected", "in flight", "again", "recovered", "report", "must say", "", box=None
    )
    for row in rows:
        power = ", ".join(f"{name} {_number(value)}" for name, value in row.power.items()) or row.why
        mark = "[green]as marked[/]" if row.behaved else f"[bold red]{escape(row.why)}[/]"
        table.add_row(
            row.number, row.name, escape(power), _known(row.in_flight), str(row.again or ""), _seconds(row.recovery_ms),
            row.verdict, escape(row.expected), "" if row.verdict == "NOT RUN" else mark,
        )  # fmt: skip
    return table


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _known(count: int) -> str:
    return "" if count < 0 else f"{count:,}"


def _seconds(ms: int) -> str:
    return "" if ms < 0 else f"{ms / 1000:.1f} s"


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=WIDE)
