"""What was measured, as a table, JSON and Markdown: medians and spread, ratios within one run, what was wanted."""

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

from loadtest.decisions.figures import Sample


@dataclass(frozen=True, slots=True)
class Row:
    """`than`: who its rate is compared with, and how many times that is wanted; `beside`: and who else is; `flat`: its
    cost is compared with the first one of its kind."""

    name: str
    who: str
    than: str | None = None
    wanted: float | None = None
    at_least: float | None = None
    flat: bool = False
    beside: str | None = None


class Line(NamedTuple):
    disk: str
    what: str
    who: str
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

    def rate(self, name: str, who: str, flush_us: int) -> float:
        return next(
            median(each.rate for each in samples)
            for (row, disk), samples in self.samples.items()
            if (row.name, row.who, disk) == (name, who, flush_us)
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
            row.who + (f" ({samples[-1].note})" if samples[-1].note else ""),
            f"{middle:,.0f}/s ({rates[0]:,.0f}–{rates[-1]:,.0f})",
            f"{cost_us:.0f} µs" if cost_us else "",
            wanted,
            reached,
        )


def _disk(flush_us: int, measured: Measured) -> str:
    kind = f"+ {flush_us / 1000:g} ms" if flush_us else "as it is"
    return f"{kind} ({measured.flush_ms.get(flush_us, 0.0):.2f} ms a commit)"


HEADS = ("disk", "what", "who", "median (least–most)", "CPU each", "wanted", "reached")


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
        "Written by `python -m loadtest.decisions`. Every row is the median of its repetitions, with the least and the "
        "most; rows that are compared were measured in turn, on the same servers. Absolute numbers are those of one "
        "machine; the ratios are what counts.",
        ", ".join(f"{name}: {value}" for name, value in about().items()),
        "The slow disk is emulated: a library loaded before Postgres's own makes every fsync and fdatasync sleep first."
        " “CPU each” is of Postgres, the broker and the consumers together. The row lock is measured "
        "in a request (a Django view that does nothing else, two workers of Granian) and as the function alone, in a "
        "loop without HTTP; both with prepared statements on kept connections, and with as many of them as serve best.",
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
