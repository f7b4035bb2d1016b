"""How a demo looks: a live picture on a terminal, one line per second elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from seckill.lab.demo.progress import Meter, Sample, rates

BARS = " ▁▂▃▄▅▆▇█"
WIDTH_COLUMNS = 60
SAMPLES_PER_SECOND = 4
"""Each column of the picture is one second."""


class Screen:
    """Call `refresh` after each sample. Messages stay above the picture."""

    def __init__(self, console: Console, meter: Meter, units: int) -> None:
        self._console, self._meter, self._units = console, meter, units
        self._live = Live(console=console, refresh_per_second=SAMPLES_PER_SECOND, auto_refresh=False, transient=True)
        self._refreshes = 0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def print(self, text: str) -> None:
        self._console.print(text, highlight=False)

    def refresh(self) -> None:
        self._refreshes += 1
        if self._console.is_terminal:
            self._live.update(self._picture(), refresh=True)
        elif self._refreshes % SAMPLES_PER_SECOND == 0:
            self._console.print(line(self._meter), highlight=False, markup=False, soft_wrap=True)

    def _picture(self) -> RenderableType:
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(width=13)
        table.add_column(width=WIDTH_COLUMNS)
        table.add_column(justify="right", width=12)
        columns = list(self._meter.samples)[-WIDTH_COLUMNS * SAMPLES_PER_SECOND - 1 :: SAMPLES_PER_SECOND]
        seconds = [rates(*pair) for pair in pairwise(columns)]
        for name, style, values in (
            ("attempts/s", "blue", [each.attempts for each in seconds]),
            ("accepted/s", "cyan", [each.accepted for each in seconds]),
            ("decided/s", "green", [each.decided for each in seconds]),
            ("backlog", "yellow", [float(sample.backlog) for sample in columns[1:]]),
        ):
            last = f"{values[-1]:,.0f}" if values else "0"
            table.add_row(name, Text(sparkline(values), style=style), last)
        return Group(table, self._bar(self._meter.samples[-1]))

    def _bar(self, sample: Sample) -> RenderableType:
        reserved, sold = (round(WIDTH_COLUMNS * units / self._units) for units in (sample.reserved, sample.sold))
        bar = Text("units".ljust(14)).append("█" * sold, "green").append("█" * reserved, "yellow")
        bar.append("░" * max(0, WIDTH_COLUMNS - sold - reserved), "dim")
        return bar.append("  " + _units(sample))


def sparkline(values: Sequence[float]) -> str:
    highest = max(values, default=0.0)
    if highest <= 0:
        return " " * len(values)
    return "".join(BARS[min(8, -int(-8 * max(0.0, value) // highest))] for value in values)


def line(meter: Meter) -> str:
    now, per_second = meter.samples[-1], meter.rates()
    return (
        f"{now.at_s:6.1f} s  attempts {per_second.attempts:6,.0f}/s  accepted {per_second.accepted:6,.0f}/s  "
        f"decided {per_second.decided:6,.0f}/s  backlog {now.backlog:6,}  {_units(now)}"
    )


def _units(sample: Sample) -> str:
    return (
        f"sold {sample.sold:,} · reserved {sample.reserved:,} · available {sample.available:,}"
        f" · messages due {sample.deliveries_due:,}"
    )
