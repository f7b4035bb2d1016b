"""The measurements as a table, JSON and Markdown: medians with their spread, ratios within one run, and goals."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from loadtest.benchmarks.decisions.figures import Sample


@dataclass(frozen=True, slots=True)
class Row:
    """`than` names the design to compare with, and `wanted` is the goal for the ratio; `beside` is a second design for
    comparison. `flat` compares the cost with that of the first flat row."""

    name: str
    design: str
    than: str | None = None
    wanted: float | None = None
    at_least: float | None = None
    flat: bool = False
    beside: str | None = None


class Line(NamedTuple):
    disk: str
    what: str
    design: str
    rate: str
    cost: str
    wanted: str
    reached: str


@dataclass(slots=True)
class Measured:
    flush_ms: dict[int, float] = field(default_factory=dict)
    samples: dict[tuple[Row, int], list[Sample]] = field(default_factory=dict)

    def add(self, row: Row, flush_us: int, sample: Sample) -> None:
        self.samples.setdefault((row, flush_us), []).append(sample)

    def rate(self, name: str, design: str, flush_us: int) -> float:
        return next(
            median(each.rate for each in samples)
            for (row, disk), samples in self.samples.items()
            if (row.name, row.design, disk) == (name, design, flush_us)
        )


def lines(measured: Measured) -> Iterator[Line]:
    first_cost: float | None = None
    for (row, flush_us), samples in sorted(measured.samples.items(), key=lambda item: item[0][1]):
        rates = sorted(each.rate for each in samples)
        middle = median(rates)
        cost_us = median(each.cpu_s / each.count for each in samples) * 1e6
        seconds = median(each.seconds for each in samples)
        wanted, reached = "", f"{seconds:.1f} s"
        if row.than is not None:
            wanted, reached = f"≥ {row.wanted:g} ×", f"{middle / measured.rate(row.name, row.than, flush_us):.1f} ×"
            if row.beside is not None:
                reached += f"; {middle / measured.rate(row.name, row.beside, flush_us):.1f} × {row.beside}"
        elif row.at_least is not None:
            wanted, reached = f"≥ {row.at_least:,.0f}/s", f"{middle:,.0f}/s"
        elif row.flat:
            first_cost = first_cost or cost_us
            wanted, reached = "flat", f"{cost_us / first_cost:.2f} × the first"
        yield Line(
            _disk(flush_us, measured),
            row.name,
            row.design + (f" ({samples[-1].note})" if samples[-1].note else ""),
            f"{middle:,.0f}/s ({rates[0]:,.0f}–{rates[-1]:,.0f})",
            f"{cost_us:.0f} µs" if cost_us else "",
            wanted,
            reached,
        )


def _disk(flush_us: int, measured: Measured) -> str:
    kind = f"+ {flush_us / 1000:g} ms" if flush_us else "as it is"
    return f"{kind} ({measured.flush_ms.get(flush_us, 0.0):.2f} ms per commit)"


HEADS = ("disk", "load", "design", "median (lowest–highest)", "CPU per purchase", "goal", "reached")


def show(measured: Measured, console: Console) -> None:
    table = Table(*HEADS, title="Purchases decided", box=None)
    for line in lines(measured):
        table.add_row(*line)
    console.print(table)


def as_json(measured: Measured) -> str:
    results = [
        {"flush_us": flush_us, **asdict(row), "samples": [asdict(each) for each in samples]}
        for (row, flush_us), samples in measured.samples.items()
    ]
    return json.dumps({"version": 1, "about": about(), "flush_ms": measured.flush_ms, "results": results}, indent=1)


def as_markdown(measured: Measured) -> str:
    body = [
        "# Purchases decided",
        "Written by `python -m loadtest.benchmarks.decisions`. Every row is the median of its repetitions, with the "
        "lowest and the highest. Designs were measured in turn on the same servers, so compare the ratios; absolute "
        "numbers depend on the machine.",
        ", ".join(f"{name}: {value}" for name, value in about().items()),
        "The slow disk is emulated: a library loaded before Postgres's own makes every fsync and fdatasync sleep first."
        " “CPU per purchase” is that of Postgres, broker and consumers together. The row lock is measured in a "
        "request (a minimal Django view on two Granian workers) and as a function in a loop without HTTP; both "
        "with prepared statements on persistent connections, and with the fastest number of connections.",
        "\n".join(
            ["| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
            + ["| " + " | ".join(line) + " |" for line in lines(measured)]
        ),
    ]
    return "\n\n".join(body) + "\n"


def about() -> dict[str, str]:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {
        "commit": commit or "unknown",
        "cores": str(os.cpu_count()),
        "machine": platform.machine(),
        "system": platform.system(),
        "Python": platform.python_version(),
    }
