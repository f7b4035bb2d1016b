"""Shell: `python -m loadtest.benchmarks.broker`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from loadtest.benchmarks import machine
from loadtest.benchmarks.broker import picture, report, rows
from loadtest.benchmarks.broker.measurement import Bench, JobFault, present
from loadtest.benchmarks.broker.peers import Peer, PeerFault

FREE_GB_MIN = 6


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    console = Console()
    if options.list:
        for load in rows.LOADS:
            console.print(load.key, "·", load.figures[0].title, highlight=False)
        return 0
    loads = rows.chosen(options.rows, options.quick)
    if not loads:
        return _fail(f"no row begins with {' or '.join(options.rows)}; see --list")
    repeat = options.repeat or (1 if options.quick else 3)
    seconds = options.seconds or (1.0 if options.quick else 2.0)
    minutes = options.minutes or (2.0 if options.quick else 12.0)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a terminated run stops its brokers
    with tempfile.TemporaryDirectory(prefix="broker-bench-", dir=options.data, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if shutil.disk_usage(folder).free < FREE_GB_MIN * 1e9:
            return _fail(f"{folder} has less than {FREE_GB_MIN} GB free; choose another place with --data")
        peers, notes = present(folder)
        for note in notes:
            console.print(f"[yellow]{note}[/]", highlight=False)
        about = _about(peers)
        began = time.monotonic()
        with _progress(console) as steps:
            task = steps.add_task("", total=len(loads) + 4)
            bench = Bench(peers, folder, repeat, seconds, lambda text: steps.update(task, description=text))
            failure = _measure(bench, loads, began + 60 * minutes, notes, lambda: steps.advance(task))
    took = (time.monotonic() - began) / 60
    about["run"] = f"{time.strftime('%Y-%m-%d')}, {repeat} repetitions of {seconds:g} s, took {took:.1f} min"
    about["load average"] += f" before, {os.getloadavg()[0]:.1f} at the end"
    for limit in (rows.COPY_IN, rows.COPY_OUT):
        if limit.key in bench.rows:
            notes.append(f"{limit.title}: {report.number(bench.rows[limit.key].middle(report.MACHINE))} {limit.unit}")
    if bench.half_load:
        notes.append(f"half load: {bench.half_load:,.0f} records of 1 KB a second")
    results = [bench.rows[key] for key in sorted(bench.rows, key=_order)]
    shown = [measured for measured in results if report.OURS in measured.values]
    _show(console, shown)
    for line in (*(f"{name}: {value}" for name, value in about.items()), *notes):
        console.print(line, highlight=False)
    _write(options, results, shown, about, notes)
    return _fail(failure) if failure else 0


def _measure(
    bench: Bench, loads: Sequence[rows.Load], deadline: float, notes: list[str], advance: Callable[[], None]
) -> str:
    """Why the measurement ended early, or an empty text. Results until then still count."""
    try:
        bench.start()
        advance()
        bench.warm_up()
        advance()
        for load in loads:
            if time.monotonic() < deadline:
                bench.run(load)
            else:
                notes.append(f"left out, because the time was over: {load.figures[0].title}")
            advance()
        bench.finish()
        advance()
        bench.limits()
        advance()
    except (JobFault, PeerFault) as fault:
        notes.append("the run failed before its end")
        return str(fault)
    except KeyboardInterrupt:
        notes.append("the run was interrupted")
        return "interrupted"
    finally:
        bench.stop()
    return ""


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<62}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )


def _order(key: str) -> int:
    keys = [figure.key for load in rows.LOADS for figure in load.figures]
    return keys.index(key) if key in keys else len(keys)


def _show(console: Console, results: Sequence[report.Measured]) -> None:
    table = Table(title="mqcore compared: medians, with the lowest and highest ratio")
    for head in report.HEADS:
        table.add_column(head, justify="left" if head in ("row", "unit", "goal", "limited by") else "right")
    for measured in results:
        table.add_row(*report.cells(measured))
    console.print(table)


def _about(peers: Sequence[Peer]) -> dict[str, str]:
    """Collected before the run, because the working tree may change during it."""
    hardware = machine.hardware()
    return {
        "commit": machine.commit(),
        "hardware": f"{hardware['cpu']}, {hardware['cores']} cores, {hardware['memory']}, {hardware['system']}",
        "python": hardware["python"],
        "peers": ", ".join(f"{peer.name} {peer.version}" for peer in peers[1:]) or "none",
        "load average": f"{os.getloadavg()[0]:.1f}",
    }


def _write(
    options: argparse.Namespace,
    results: Sequence[report.Measured],
    shown: Sequence[report.Measured],
    about: dict[str, str],
    notes: Sequence[str],
) -> None:
    if options.json:
        facts = {"about": about, "notes": list(notes), "rows": [measured.as_json() for measured in results]}
        options.json.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    if options.svg:
        subtitle = f"{about['hardware']} · commit {about['commit']} · right is better · thick mark: the goal"
        options.svg.write_text(picture.svg(results, subtitle))
    if options.markdown:
        options.markdown.write_text(report.markdown(shown, about, notes))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.benchmarks.broker",
        description="Compare mqcore with Apache Kafka and Redis Streams, in one run with the same clients.",
        epilog="Apache Kafka needs Java 17+ and, once, Maven to download its jars; Redis Streams need redis-server. "
        "A missing broker is left out, and the result says so.",
    )
    parser.add_argument("--quick", action="store_true", help="the main rows, once and shorter: under two minutes")
    parser.add_argument(
        "--rows", nargs="+", default=[], metavar="ROW", help="only rows whose names begin with ROW (see --list)"
    )
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    parser.add_argument("--repeat", type=_positive, metavar="N", help="repetitions (3; 1 with --quick)")
    parser.add_argument("--seconds", type=float, metavar="S", help="length of one measurement (2; 1 with --quick)")
    parser.add_argument("--minutes", type=float, metavar="M", help="start no row after M minutes (12; 2 with --quick)")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="where the brokers keep their data (a temporary folder)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every value")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a picture of the ratios")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def _fail(message: str) -> int:
    print(f"loadtest.benchmarks.broker: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
