"""Shell: `python -m loadtest.benchmarks.stats`: how fast Spark counts the topics, compared with Parquet.

It starts its own broker and its own Spark with the settings of `seckill stats replay`. The results go to Spark's "noop"
sink, so neither Postgres nor a disk is measured. Within each size, each repetition counts every source in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from loadtest.benchmarks.machine import commit, hardware
from loadtest.benchmarks.stats import report
from loadtest.benchmarks.stats.measurement import Bench, Run


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.benchmarks.stats", description=__doc__)
    parser.add_argument(
        "--records",
        type=int,
        nargs="+",
        default=[1_000_000],
        help="sizes to measure; two sizes show how the time grows (default: 1000000)",
    )
    parser.add_argument(
        "--repeat",
        type=int,
        nargs="+",
        default=[3],
        help="repetitions, one number for all sizes or one per size (default: 3)",
    )
    parser.add_argument(
        "--kafka", action="store_true", help="also measure Apache Kafka at the smallest size (needs Maven once)"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a Spark setting")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the topics in this folder, and reuse those that it has"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to a file")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write a page")
    chosen = parser.parse_args(arguments)
    if min(chosen.records) < 1_000 or min(chosen.repeat) < 1:
        parser.error("--records must be at least 1000, --repeat at least 1")
    if len(chosen.repeat) not in (1, len(chosen.records)):
        parser.error("--repeat needs one number, or one for each of --records")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # runs every `finally`, so no broker is left behind
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
    repeats = chosen.repeat * len(chosen.records) if len(chosen.repeat) == 1 else chosen.repeat
    plan = sorted(zip(chosen.records, repeats, strict=True))
    console = Console(stderr=True)
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="stats-bench-", ignore_cleanup_errors=True) as name:
        folder = (chosen.keep or Path(name)).absolute()
        more = dict(each.split("=", 1) for each in chosen.set)
        with Bench(folder, more, lambda text: console.print(text, highlight=False)) as bench:
            runs: list[Run] = []
            for number, (records, repeat) in enumerate(plan):
                runs += bench.measure(records, repeat, with_kafka=chosen.kafka and number == 0)
            about = _about(bench, load_before)
    print("\n".join(report.table(runs)))
    for what, value in about.items():
        print(f"{what}: {value}")
    print(report.growth(runs), report.limit(runs))
    if chosen.json:
        chosen.json.write_text(json.dumps(report.as_json(runs, about), indent=1) + "\n")
    if chosen.markdown:
        chosen.markdown.write_text(report.markdown(runs, about), encoding="utf-8")
    return 0


def _about(bench: Bench, load_before: float) -> dict[str, str]:
    machine = hardware()
    return {
        "commit": commit(),
        "hardware": f"{machine['cpu']}, {machine['cores']} cores, {machine['memory']}, {machine['system']}",
        "load average": f"{load_before:.1f} before, {os.getloadavg()[0]:.1f} at the end",
        "versions": f"Python {platform.python_version()}, Spark {bench.spark_version}, Java {bench.java_version}",
        "Spark's heap": bench.heap,
        "Spark's first answer": f"{bench.start_s:.1f} s after the start of its session",
        "run": time.strftime("%Y-%m-%d"),
    }


if __name__ == "__main__":
    sys.exit(main())
