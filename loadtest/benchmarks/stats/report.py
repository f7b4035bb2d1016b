"""Codec: turns runs into ratios per round, a table and a page. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from loadtest.benchmarks.stats.measurement import KAFKA, MQCORE, PARQUET, Run

GOAL = 0.5
FLAT = 1.2
HEAD = (
    "records", "from", "rounds", "seconds", "records/s", "µs per record",
    "Java's CPU, µs per record", "of Parquet's rate",
)  # fmt: skip


def table(runs: Sequence[Run]) -> list[str]:
    return _lines(HEAD, _rows(runs))


def ratios(runs: Sequence[Run], records: int, source: str) -> list[float]:
    """The rate of the source divided by Parquet's, within each round."""
    mine, theirs = _of(runs, records, source), _of(runs, records, PARQUET)
    return [parquet.took_s / run.took_s for run, parquet in zip(mine, theirs, strict=True)]


def growth(runs: Sequence[Run]) -> str:
    sizes = sorted({run.records for run in runs})
    if len(sizes) < 2:
        return "Only one size was measured, so growth is unknown."
    small, large = sizes[0], sizes[-1]
    lines = []
    for source in (MQCORE, PARQUET):
        each = [median(run.took_s for run in _of(runs, size, source)) / size * 1e6 for size in (small, large)]
        shape = "flat" if each[1] <= FLAT * each[0] else "more than linear"
        lines.append(f"{source} {each[0]:.2f} → {each[1]:.2f} µs per record ({shape})")
    return f"From {small:,} to {large:,} records: {'; '.join(lines)}."


def limit(runs: Sequence[Run]) -> str:
    """How many cores Spark used while it counted the topics."""
    cores = median(run.cpu_s / run.took_s for run in runs if run.source == MQCORE)
    return f"While the topics were counted, Spark's Java used {cores:.1f} cores."


def markdown(runs: Sequence[Run], about: Mapping[str, str]) -> str:
    sizes = sorted({run.records for run in runs})
    verdicts = []
    for size in sizes:
        ratio = median(ratios(runs, size, MQCORE))
        verdicts.append(f"{ratio:.2f} at {size:,} {'✓' if ratio >= GOAL else '✗'}")
    memory = [
        (f"{size:,}", *(f"{max(each):,.0f}" for each in zip(*_memory(runs, size), strict=True))) for size in sizes
    ]
    return "\n".join([
        "# How fast the topics are counted", "",
        "Written by `python -m loadtest.benchmarks.stats`; run it again to compare. A sale is written into the topics,"
        " and Spark computes all measures of `seckill stats replay` from the topics, through its connector, and from"
        " the same events in Parquet, in turn; the order alternates. The results are discarded, so Postgres is not"
        " measured. Events in Parquet were parsed and checked when they were written, while topics contain JSON.", "",
        *(f"* {name}: {text}" for name, text in about.items()),
        f"* goal: at least {GOAL} × Parquet's rate; measured (medians): {', '.join(verdicts)}", "",
        *table(runs), "",
        f"{growth(runs)} {limit(runs)}", "",
        "## Memory", "",
        "The peak resident memory of each process, in MiB. Java's heap is bounded; what does not fit goes to disk.", "",
        *_lines(("records", "Spark's Java", "its Python", "mqcore"), memory), "",
    ])  # fmt: skip


def as_json(runs: Sequence[Run], about: Mapping[str, str]) -> dict[str, Any]:
    return {"version": 1, "about": dict(about), "goal": GOAL, "runs": [run._asdict() for run in runs]}


def _rows(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for records in sorted({run.records for run in runs}):
        for source in (MQCORE, KAFKA, PARQUET):
            mine = _of(runs, records, source)
            if mine:
                took = median(run.took_s for run in mine)
                cpu = median(run.cpu_s for run in mine)
                ratio = "" if source == PARQUET else _spread(ratios(runs, records, source), 2)
                found.append((
                    f"{records:,}", source, str(len(mine)), _spread([run.took_s for run in mine], 1),
                    f"{records / took:,.0f}", f"{took / records * 1e6:.2f}", f"{cpu / records * 1e6:.2f}", ratio,
                ))  # fmt: skip
    return found


def _memory(runs: Sequence[Run], records: int) -> list[tuple[float, float, float]]:
    return [(run.java_mib, run.python_mib, run.source_mib) for run in _of(runs, records, MQCORE)]


def _of(runs: Iterable[Run], records: int, source: str) -> list[Run]:
    return [run for run in runs if (run.records, run.source) == (records, source)]


def _spread(values: Sequence[float], digits: int) -> str:
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def _lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    rule = "|" + "".join("--:|" if number else "---|" for number in range(len(head)))
    return [f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]
