"""Shell: `python -m loadtest.stats`: how fast the topics are counted, beside the same counting over Parquet.

A broker of its own, a Spark of its own, and frames that go nowhere (Spark's "noop"), so that neither Postgres nor a
disk is measured. Each repetition reads the topics, then Parquet, in turn; the first of each only warms Java up. A
table, and JSON where it is asked for. No test asserts any of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from loadtest.stats import corpus
from seckill.stack.broker import BrokerProcess
from seckill.streams.cluster import create_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Row(NamedTuple):
    requests: int
    records: int
    topics_s: tuple[float, ...]
    parquet_s: tuple[float, ...]

    @property
    def ratio(self) -> float:
        return statistics.median(self.parquet_s) / statistics.median(self.topics_s)

    def rate(self, seconds: Sequence[float]) -> float:
        return self.records / statistics.median(seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.stats", description=__doc__)
    parser.add_argument(
        "--requests", type=int, nargs="+", default=[100_000], help="sizes to measure; two of them show how it grows"
    )
    parser.add_argument("--repeat", type=int, default=3, help="measured repetitions of each (default: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers, too")
    chosen = parser.parse_args(arguments)
    if min(chosen.requests) < 1 or chosen.repeat < 1:
        parser.error("--requests and --repeat must be at least 1")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.settings")
    console = Console()
    with tempfile.TemporaryDirectory(prefix="stats-bench-", ignore_cleanup_errors=True) as name:
        about, rows = _measure(Path(name), chosen.requests, chosen.repeat, console)
    console.print(_table(rows))
    for what, value in about.items():
        console.print(f"{what}: {value}", highlight=False)
    if len(rows) > 1:
        small, large = rows[0], rows[-1]
        times = statistics.median(large.topics_s) / statistics.median(small.topics_s)
        console.print(f"{large.records / small.records:.1f} × the records took {times:.1f} × the time")
    if chosen.json:
        found = {"about": about, "rows": [row._asdict() | {"ratio": row.ratio} for row in rows]}
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def _measure(folder: Path, sizes: Sequence[int], repeat: int, console: Console) -> tuple[dict[str, str], list[Row]]:
    from analytics import session

    began = time.monotonic()
    spark = session.start(session.LOCAL, folder / "spark", {"spark.driver.memory": "2g"})
    spark.range(1).count()
    start_s = time.monotonic() - began
    rows = []
    try:
        for requests in sorted(sizes):
            with BrokerProcess(folder / f"broker-{requests}", {"auto.create.topics.enable": "false"}) as broker:
                create_topics(broker.address)
                console.print(f"writing {corpus.records(requests):,} records …", highlight=False)
                corpus.write(spark, broker.address, requests)
                rows.append(_row(spark, broker.address, folder / f"facts-{requests}", requests, repeat, console))
    finally:
        memory = _most_memory(spark)
        spark.stop()
    about = {
        "first answer of Spark after": f"{start_s:.1f} s",
        "most memory of its Java": memory,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f} at the end",
        "versions": f"Python {platform.python_version()}, Spark {spark.version}",
        "run": time.strftime("%Y-%m-%d"),
    }
    return about, rows


def _row(spark: SparkSession, address: str, facts: Path, requests: int, repeat: int, console: Console) -> Row:
    from analytics import schemas, sources
    from analytics.jobs.replay import spread

    cut = sources.cut(address)
    if cut.records != corpus.records(requests):
        raise SystemExit(f"the broker has {cut.records:,} records, not {corpus.records(requests):,}")
    spread(spark, cut.records)
    said = schemas.events(sources.batch(spark, address, cut))
    said.write.mode("overwrite").parquet(str(facts))
    found: dict[str, list[float]] = {"topics": [], "Parquet": []}
    for number in range(repeat + 1):
        for name, frame in (
            ("topics", lambda: schemas.events(sources.batch(spark, address, cut))),
            ("Parquet", lambda: spark.read.parquet(str(facts))),
        ):
            took = _timed(frame)
            if number:
                found[name].append(took)
            console.print(f"  {name}: {took:.1f} s{'' if number else ' (warming up)'}", highlight=False)
    return Row(requests, cut.records, tuple(found["topics"]), tuple(found["Parquet"]))


def _timed(frame: Callable[[], DataFrame]) -> float:
    """All measures over these events."""
    from analytics import shapes, sinks

    began = time.monotonic()
    said = frame()
    unique = shapes.distinct(said, "").persist()
    try:
        looked_at: Any = {"record": said, "event": unique, "step": shapes.steps(unique, "")}
        sinks.computed(looked_at).write.format("noop").mode("overwrite").save()
    finally:
        unique.unpersist(blocking=True)
    return time.monotonic() - began


def _most_memory(spark: SparkSession) -> str:
    """As the system has seen it; where it does not say, nothing is claimed."""
    java = spark.sparkContext._jvm
    pid = java.java.lang.ProcessHandle.current().pid() if java is not None else 0
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return "not known on this system"
    peak = next(line for line in lines if line.startswith("VmHWM"))
    return f"{int(peak.split()[1]) / 1024:,.0f} MiB"


def _table(rows: Sequence[Row]) -> Table:
    table = Table("requests", "records", "topics, records/s", "Parquet, records/s", "ratio", "topics, s", box=None)
    for row in rows:
        spread = f"{min(row.topics_s):.1f}–{max(row.topics_s):.1f}"
        table.add_row(
            f"{row.requests:,}", f"{row.records:,}", f"{row.rate(row.topics_s):,.0f}",
            f"{row.rate(row.parquet_s):,.0f}", f"{row.ratio:.2f}", spread,
        )  # fmt: skip
    return table


if __name__ == "__main__":
    sys.exit(main())
