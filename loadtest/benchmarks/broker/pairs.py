"""Shell: one broker of this commit beside one of an earlier commit, in pairs that take turns.

    python -m loadtest.benchmarks.broker.pairs --against 782ad63

Both brokers are started for each pair with an empty folder, and the order alternates. A row passes if the median of its
ratios is at least 0.95 and this commit is slower in fewer than nine of ten pairs.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from loadtest.benchmarks import machine
from loadtest.benchmarks.broker.measurement import run_job
from loadtest.benchmarks.broker.peers import Mqcore
from loadtest.benchmarks.broker.report import OURS, Measured
from loadtest.benchmarks.broker.rows import LESS, Figure
from seckill.stack.child_processes import cpu_seconds

ROOT = Path(__file__).parents[3]
BEFORE = "before"
RATIO_MIN, SLOWER_SHARE_MAX = 0.95, 0.9
PATIENCE_S = 30.0

START = Figure("start", "start, until metadata are served", "s", "", LESS)
UNBATCHED = Figure("unbatched", "one 100 B record a request, 64 connections", "requests/s", "per_s")
PRODUCE = Figure("produce", "produce 1 KB, librdkafka, acks=all", "MB/s", "mb_per_s")
CONSUME = Figure("consume", "consume 1 KB, librdkafka", "MB/s", "mb_per_s")
CONSUME_CPU = Figure("consume-cpu", "CPU of the broker, consume 1 KB", "s/GB", "", LESS)
ROWS = (START, UNBATCHED, PRODUCE, CONSUME, CONSUME_CPU)

Rows = dict[str, Measured]


class Before(Mqcore):
    """The broker of another commit, from an export of its files. It runs with this environment's Python."""

    def __init__(self, folder: Path, code: Path) -> None:
        super().__init__(folder)
        self.code = code


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a terminated run stops its brokers
    commit = machine.commit()
    rows = _empty()
    with tempfile.TemporaryDirectory(prefix="broker-pairs-") as name:
        code = Path(name)
        before = _export(options.against, code)
        for number in range(-1, options.pairs):  # the first pair compiles Python's bytecode and does not count
            for kind in (OURS, BEFORE) if number % 2 else (BEFORE, OURS):
                print(f"pair {number + 1} of {options.pairs}: {kind}", file=sys.stderr, flush=True)
                with tempfile.TemporaryDirectory(prefix="broker-pairs-") as data:
                    folder = Path(data) / "broker"
                    broker = Mqcore(folder) if kind == OURS else Before(folder, code)
                    _measure(broker, kind, options.seconds, rows if number >= 0 else _empty())
    about = [
        "# One broker beside itself at an earlier commit",
        "",
        "Written by `python -m loadtest.benchmarks.broker.pairs`; run it again to compare.",
        "",
        *(f"* {name}: {value}" for name, value in ({"commit": commit} | machine.hardware()).items()),
        f"* {options.pairs} pairs, each measurement {options.seconds:g} s; a ratio is taken within a pair",
        "",
    ]
    page = "\n".join([*about, *table(rows, before), ""])
    print(page)
    if options.markdown:
        options.markdown.write_text(page)
    return 0


def table(rows: Mapping[str, Measured], before: str) -> list[str]:
    lines = [f"| | unit | this commit | {before} | times as good: median (lowest–highest) | worse in | |"]
    lines.append("|---|---|--:|--:|--:|--:|---|")
    for row in rows.values():
        ratios = [1 / ratio if row.figure.better == LESS else ratio for ratio in row.ratios(BEFORE)]
        worse = sum(ratio < 1 for ratio in ratios)
        passes = median(ratios) >= RATIO_MIN and worse < SLOWER_SHARE_MAX * len(ratios)
        cells = [row.figure.title, row.figure.unit, f"{row.middle(OURS):,.4g}", f"{row.middle(BEFORE):,.4g}"]
        cells += [f"{median(ratios):.3f} ({min(ratios):.2f}–{max(ratios):.2f})", f"{worse} of {len(ratios)}"]
        lines.append(f"| {' | '.join(cells)} | {'✓' if passes else '✗'} |")
    return lines


def _measure(broker: Mqcore, kind: str, seconds: float, rows: Rows) -> None:
    def run(job: str, topic: str, **spec: object) -> dict[str, Any]:
        return run_job(job, {"port": broker.port, "topic": topic, "seconds": seconds, **spec}, kind)

    rows[START.key].add(kind, broker.start())
    try:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        for topic in ("requests", "records"):
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
        unbatched = run("raw-produce", "requests", size=100, batch=1, connections=64, acks="all")
        rows[UNBATCHED.key].add(kind, unbatched["per_s"])
        produced = run("librdkafka-produce", "records", size=1024, acks="all")
        rows[PRODUCE.key].add(kind, produced["mb_per_s"])
        before = cpu_seconds(broker.pid)
        consumed = run("librdkafka-consume", "records", size=1024, records=produced["records"])
        rows[CONSUME.key].add(kind, consumed["mb_per_s"])
        rows[CONSUME_CPU.key].add(kind, (cpu_seconds(broker.pid) - before) / (consumed["bytes"] / 1e9))
    finally:
        broker.stop()


def _empty() -> Rows:
    return {figure.key: Measured(figure) for figure in ROWS}


def _export(revision: str, folder: Path) -> str:
    """Write the broker of this commit into the folder. The commit's short name."""
    try:
        name = _git("rev-parse", "--short=10", f"{revision}^{{commit}}").decode().strip()
        subprocess.run(["tar", "-x", "-C", str(folder)], input=_git("archive", name, "mqcore"), check=True)
    except subprocess.CalledProcessError as fault:
        sys.exit(f"loadtest.benchmarks.broker.pairs: {revision} cannot be exported: {fault.stderr.decode().strip()}")
    return name


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.benchmarks.broker.pairs", description="This commit's broker beside an earlier one."
    )
    parser.add_argument("--against", metavar="REV", required=True, help="the earlier commit")
    parser.add_argument("--pairs", type=int, default=10, help="how often each broker is measured (10)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement (2)")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
