"""Shell: `python -m loadtest.decisions`: every figure, ours and the peer's in turn, and the pages they go to.

python -m loadtest.decisions                       all of it: some twenty minutes
python -m loadtest.decisions --quick               one repetition of a tenth: does it run?
python -m loadtest.decisions --only decide,relay   some of it
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

from loadtest.decisions import figures, report
from loadtest.decisions.figures import Sample
from loadtest.decisions.report import Row
from loadtest.decisions.world import World

SLOW_US = 2000
IN_A_REQUEST, ALONE = "row lock in the request", "row lock, the function alone"
PARTS = ("decide", "drain", "growth", "relay", "orders", "outcomes")

Figure = Callable[[World], Sample]


def rows(parts: Sequence[str], scale: float) -> list[tuple[Row, Figure, bool]]:
    """Each row, how it is measured, and whether on the slow disk, too."""

    def some(number: int) -> int:
        return max(600, int(number * scale))

    granted, crowd, backlog = some(15_000), some(30_000), some(100_000)
    peers, peers_crowd = some(6_000), some(15_000)  # a few seconds for each of them is enough
    table: list[tuple[str, Row, Figure, bool]] = [
        ("decide", Row("everybody gets a unit", IN_A_REQUEST),
         lambda world: figures.row_lock_web(world, peers, peers, keep_refusals=True), True),
        ("decide", Row("everybody gets a unit", ALONE),
         lambda world: figures.row_lock(world, peers, peers, keep_refusals=True), True),
        ("decide", Row("everybody gets a unit", "ours", than=IN_A_REQUEST, wanted=10, beside=ALONE),
         lambda world: figures.decide(world, granted, granted), True),
        ("decide", Row("one in twenty gets a unit", IN_A_REQUEST),
         lambda world: figures.row_lock_web(world, peers_crowd, peers_crowd // 20, keep_refusals=True), True),
        ("decide", Row("one in twenty gets a unit", ALONE),
         lambda world: figures.row_lock(world, peers_crowd, peers_crowd // 20, keep_refusals=True), True),
        ("decide", Row("one in twenty gets a unit", "the same, refusals forgotten"),
         lambda world: figures.row_lock(world, peers_crowd, peers_crowd // 20, keep_refusals=False), True),
        ("decide", Row("one in twenty gets a unit", "ours", than=IN_A_REQUEST, wanted=10, beside=ALONE),
         lambda world: figures.decide(world, crowd, crowd // 20), True),
        ("drain", Row("backlog after sold out", "ours", at_least=20_000),
         lambda world: figures.decide(world, backlog, 1), True),
        *(
            ("growth", Row(f"backlog of {some(number):,}", "ours, one consumer", flat=True),
             lambda world, number=number: figures.decide(world, some(number), 1, consumers=1), False)
            for number in (1_000, 10_000, 100_000)
        ),
        ("relay", Row("outbox to topic, rows", "ours", at_least=20_000),
         lambda world: figures.relay(world, some(60_000)), False),
        ("orders", Row("request to order", IN_A_REQUEST),
         lambda world: figures.row_lock_web(world, peers, peers, keep_refusals=True), True),
        ("orders", Row("request to order", ALONE),
         lambda world: figures.row_lock(world, peers, peers, keep_refusals=True), True),
        ("orders", Row("request to order", "ours", than=IN_A_REQUEST, wanted=3, beside=ALONE),
         lambda world: figures.place_orders(world, granted), True),
        ("outcomes", Row("backlog after sold out, until the last buyer can know", "ours"),
         lambda world: figures.until_the_last_one_knows(world, backlog), False),
    ]  # fmt: skip
    return [(row, figure, slow) for part, row, figure, slow in table if part in parts]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.decisions", description="How many purchases a second.")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PARTS", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, once: to see that it runs")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    chosen = parser.parse_args(arguments)
    parts = chosen.only.split(",")
    if unknown := sorted(set(parts) - set(PARTS)):
        parser.error(f"--only knows {', '.join(PARTS)}, not {', '.join(unknown)}")
    if chosen.repeat < 1:
        parser.error("--repeat is at least 1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by the way of every `finally`: no server is left behind
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
        worlds = [opened.enter_context(World(Path(folder) / "as-it-is", 0))]
        if slow and any(on_slow for _, _, on_slow in table):
            worlds.append(opened.enter_context(World(Path(folder) / "slow", SLOW_US)))
        measured.flush_ms = {world.flush_us: world.flush_ms() for world in worlds}
        progress = opened.enter_context(Progress(*columns, console=console))
        task = progress.add_task("", total=repeat * sum(len(worlds) if on_slow else 1 for _, _, on_slow in table))
        for _ in range(repeat):  # all rows, then all again: what disturbs one disturbs its peer, too
            for world in worlds:
                for row, figure, on_slow in table:
                    if world.flush_us and not on_slow:
                        continue
                    progress.update(task, description=f"{row.name} · {row.who}")
                    measured.add(row, world.flush_us, figure(world))
                    progress.advance(task)
    return measured


if __name__ == "__main__":
    sys.exit(main())
