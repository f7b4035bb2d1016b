"""Shell: `python -m loadtest.benchmarks.decisions`: every figure for this project and for a row lock, in turn.

python -m loadtest.benchmarks.decisions                       everything, in about twenty minutes
python -m loadtest.benchmarks.decisions --quick               a tenth of the work, once, to see that it runs
python -m loadtest.benchmarks.decisions --only decide,relay   only these parts
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from loadtest.benchmarks.decisions import figures, report
from loadtest.benchmarks.decisions.figures import Sample
from loadtest.benchmarks.decisions.report import Row
from loadtest.benchmarks.decisions.servers import BenchmarkServers

SLOW_US = 2000
IN_A_REQUEST, ALONE = "row lock in the request", "row lock, the function alone"
PARTS = ("decide", "drain", "growth", "relay", "orders", "outcomes")

Figure = Callable[[BenchmarkServers], Sample]


def rows(parts: Sequence[str], scale: float) -> list[tuple[Row, Figure, bool]]:
    """Each row, how it is measured, and whether it is measured on the slow disk as well."""

    def scaled(number: int) -> int:
        return max(600, int(number * scale))

    granted, crowd, backlog = scaled(15_000), scaled(30_000), scaled(100_000)
    locked, locked_crowd = scaled(6_000), scaled(15_000)  # a few seconds each are enough
    table: list[tuple[str, Row, Figure, bool]] = [
        ("decide", Row("every request gets a unit", IN_A_REQUEST),
         lambda servers: figures.row_lock_web(servers, locked, locked, keep_refusals=True), True),
        ("decide", Row("every request gets a unit", ALONE),
         lambda servers: figures.row_lock(servers, locked, locked, keep_refusals=True), True),
        ("decide", Row("every request gets a unit", "ours", than=IN_A_REQUEST, wanted=10, beside=ALONE),
         lambda servers: figures.decide(servers, granted, granted), True),
        ("decide", Row("one in twenty gets a unit", IN_A_REQUEST),
         lambda servers: figures.row_lock_web(servers, locked_crowd, locked_crowd // 20, keep_refusals=True), True),
        ("decide", Row("one in twenty gets a unit", ALONE),
         lambda servers: figures.row_lock(servers, locked_crowd, locked_crowd // 20, keep_refusals=True), True),
        ("decide", Row("one in twenty gets a unit", "the same, refusals forgotten"),
         lambda servers: figures.row_lock(servers, locked_crowd, locked_crowd // 20, keep_refusals=False), True),
        ("decide", Row("one in twenty gets a unit", "ours", than=IN_A_REQUEST, wanted=10, beside=ALONE),
         lambda servers: figures.decide(servers, crowd, crowd // 20), True),
        ("drain", Row("backlog after sold out", "ours", at_least=20_000),
         lambda servers: figures.decide(servers, backlog, 1), True),
        *(
            ("growth", Row(f"backlog of {scaled(number):,}", "ours, one consumer", flat=True),
             lambda servers, number=number: figures.decide(servers, scaled(number), 1, consumers=1), False)
            for number in (1_000, 10_000, 100_000)
        ),
        ("relay", Row("outbox to topic, rows", "ours", at_least=20_000),
         lambda servers: figures.relay(servers, scaled(60_000)), False),
        ("orders", Row("request to order", IN_A_REQUEST),
         lambda servers: figures.row_lock_web(servers, locked, locked, keep_refusals=True), True),
        ("orders", Row("request to order", ALONE),
         lambda servers: figures.row_lock(servers, locked, locked, keep_refusals=True), True),
        ("orders", Row("request to order", "ours", than=IN_A_REQUEST, wanted=3, beside=ALONE),
         lambda servers: figures.place_orders(servers, granted), True),
        ("outcomes", Row("backlog after sold out, until the last buyer sees an outcome", "ours"),
         lambda servers: figures.until_last_outcome(servers, backlog), False),
    ]  # fmt: skip
    return [(row, figure, slow) for part, row, figure, slow in table if part in parts]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.benchmarks.decisions", description="Purchases per second, beside a row lock."
    )
    parser.add_argument("--only", default=",".join(PARTS), metavar="PARTS", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, once, to see that it runs")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    chosen = parser.parse_args(arguments)
    parts = chosen.only.split(",")
    if unknown := sorted(set(parts) - set(PARTS)):
        parser.error(f"--only knows {', '.join(PARTS)}, not {', '.join(unknown)}")
    if chosen.repeat < 1:
        parser.error("--repeat is at least 1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # runs every `finally`, so no server is left behind
    table = rows(parts, 0.1 if chosen.quick else 1.0)
    console = Console(stderr=True)
    try:
        measured = _measure(table, 1 if chosen.quick else chosen.repeat, console)
    except (RuntimeError, TimeoutError, OSError, subprocess.SubprocessError) as fault:
        print(f"decisions: {fault}", file=sys.stderr)
        return 1
    report.show(measured, Console())
    if chosen.json is not None:
        chosen.json.write_text(report.as_json(measured))
    if chosen.markdown is not None:
        chosen.markdown.write_text(report.as_markdown(measured))
    return 0


def _measure(table: list[tuple[Row, Figure, bool]], repeat: int, console: Console) -> report.Measured:
    slow = shutil.which("cc") is not None
    if not slow:
        console.print("no C compiler (cc): the slow disk is not measured")
    measured = report.Measured()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with tempfile.TemporaryDirectory(prefix="decisions-") as folder, ExitStack() as opened:
        environments = [opened.enter_context(BenchmarkServers(Path(folder) / "as-it-is", 0))]
        if slow and any(on_slow for _, _, on_slow in table):
            environments.append(opened.enter_context(BenchmarkServers(Path(folder) / "slow", SLOW_US)))
        measured.flush_ms = {servers.flush_us: servers.flush_ms() for servers in environments}
        progress = opened.enter_context(Progress(*columns, console=console))
        task = progress.add_task("", total=repeat * sum(len(environments) if on_slow else 1 for _, _, on_slow in table))
        for _ in range(repeat):  # all rows, then all again, so that other load on the machine affects both designs
            for servers in environments:
                for row, figure, on_slow in table:
                    if servers.flush_us and not on_slow:
                        continue
                    progress.update(task, description=f"{row.name} · {row.design}")
                    measured.add(row, servers.flush_us, figure(servers))
                    progress.advance(task)
    return measured


if __name__ == "__main__":
    sys.exit(main())
