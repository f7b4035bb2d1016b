"""How a demo looks: a picture that moves on a terminal, a line a second without one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from seckill.demo.numbers import Count, Meter, rates

BARS = " ▁▂▃▄▅▆▇█"
WIDE = 60
LOOKS = 4
"""A second: each column of the picture is so many looks."""


class Screen:
    """`show` after each look. What is told stays above the picture."""

    def __init__(self, console: Console, meter: Meter, units: int) -> None:
        self._console, self._meter, self._units = console, meter, units
        self._live = Live(console=console, refresh_per_second=LOOKS, auto_refresh=False, transient=True)
        self._looks = 0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def tell(self, text: str) -> None:
        self._console.print(text, highlight=False)

    def show(self) -> None:
        self._looks += 1
        if self._console.is_terminal:
            self._live.update(self._picture(), refresh=True)
        elif self._looks % LOOKS == 0:
            self._console.print(line(self._meter), highlight=False, markup=False, soft_wrap=True)

    def _picture(self) -> RenderableType:
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(width=13)
        table.add_column(width=WIDE)
        table.add_column(justify="right", width=12)
        columns = list(self._meter.counts)[-WIDE * LOOKS - 1 :: LOOKS]
        seconds = [rates(*pair) for pair in pairwise(columns)]
        for name, style, values in (
            ("offered/s", "blue", [each.offered for each in seconds]),
            ("acked/s", "cyan", [each.acknowledged for each in seconds]),
            ("decided/s", "green", [each.decided for each in seconds]),
            ("backlog", "yellow", [float(count.backlog) for count in columns[1:]]),
        ):
            last = f"{values[-1]:,.0f}" if values else "0"
            table.add_row(name, Text(sparks(values), style=style), last)
        return Group(table, self._bar(self._meter.counts[-1]))

    def _bar(self, count: Count) -> RenderableType:
        held, sold = (round(WIDE * units / self._units) for units in (count.held, count.sold))
        bar = Text("units".ljust(14)).append("█" * sold, "green").append("█" * held, "yellow")
        bar.append("░" * max(0, WIDE - sold - held), "dim")
        return bar.append(
            f"  sold {count.sold:,} · held {count.held:,} · free {count.free:,} · messages due {count.due:,}"
        )


def sparks(values: Sequence[float]) -> str:
    most = max(values, default=0.0)
    if most <= 0:
        return " " * len(values)
    return "".join(BARS[min(8, -int(-8 * max(0.0, value) // most))] for value in values)


def line(meter: Meter) -> str:
    now, a_second = meter.counts[-1], meter.rates()
    return (
        f"{now.at_s:6.1f} s  offered {a_second.offered:6,.0f}/s  acked {a_second.acknowledged:6,.0f}/s  "
        f"decided {a_second.decided:6,.0f}/s  backlog {now.backlog:6,}  "
        f"sold {now.sold:,}  held {now.held:,}  free {now.free:,}  messages due {now.due:,}"
    )
