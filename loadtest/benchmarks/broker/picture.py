"""Codec: the ratios to Apache Kafka as an SVG file: one bar per row on a logarithmic scale around 1 ×.

Longer to the right is always better, so a ratio where less is better is inverted.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from loadtest.benchmarks.broker.report import KAFKA, Measured, number
from loadtest.benchmarks.broker.rows import LESS

ROW_HEIGHT = 24
RATIO_MIN, RATIO_MAX = 0.25, 64.0
TICKS = [2.0**doubling for doubling in range(-2, 7)]


def svg(rows: Sequence[Measured], subtitle: str) -> str:
    """All rows that have a ratio to Kafka."""
    import altair as alt  # takes more than a second

    from seckill.report.html.charts import DIM, GREEN, INK, RED, WIDTH, chart_of, file_svg

    bars = [_bar(measured) for measured in rows if measured.ratios(KAFKA)]
    scale = alt.Scale(type="log", base=2, domain=[RATIO_MIN, RATIO_MAX], nice=False, clamp=True)
    ratios = "datum.value < 1 ? '1/' + format(1 / datum.value, 'd') + '×' : format(datum.value, 'd') + '×'"
    axis = alt.Axis(title=None, values=TICKS, labelExpr=ratios)
    label_axis = alt.Axis(title=None, ticks=False, domain=False, labelLimit=400)
    y = alt.Y("title:N", axis=label_axis, sort=None)
    base = chart_of(bars).encode(y=y)

    def x(column: str) -> Any:
        return alt.X(f"{column}:Q", scale=scale, axis=axis)

    colour = alt.Color(
        "reached:N", scale=alt.Scale(domain=["reached", "missed", "no goal"], range=[GREEN, RED, DIM]), legend=None
    )
    one = chart_of([{"ratio": 1.0}]).mark_rule(color=INK).encode(x=x("ratio"))
    layers = alt.layer(
        base.mark_bar(height=ROW_HEIGHT - 10).encode(x=x("one"), x2="ratio:Q", color=colour),
        base.mark_rule(color=INK).encode(x=x("low"), x2="high:Q"),
        base.mark_tick(color=INK, thickness=2, height=ROW_HEIGHT - 4).encode(x=x("goal")),
        base.mark_text(align="left", dx=6, color=INK).encode(x=x("label_at"), text="label:N"),
        one,
    )
    title = alt.TitleParams("mqcore compared with Apache Kafka", subtitle=subtitle, fontSize=16)
    chart = layers.properties(width=WIDTH - 200, height=max(1, ROW_HEIGHT * len(bars)), title=title)
    return file_svg(chart, "mqcore compared with Apache Kafka")


def _bar(measured: Measured) -> dict[str, Any]:
    ratios = sorted(_oriented(measured, ratio) for ratio in measured.ratios(KAFKA))
    middle = median(ratios)
    reached = {True: "reached", False: "missed", None: "no goal"}[measured.reached()]
    return {
        "title": measured.figure.title,
        "one": 1.0,
        "ratio": middle,
        "low": ratios[0],
        "high": ratios[-1],
        "goal": None if measured.goal is None else _oriented(measured, measured.goal),
        "label": f"{number(middle)}×",
        "label_at": max(1.0, ratios[-1]),
        "reached": reached,
    }


def _oriented(measured: Measured, ratio: float) -> float:
    """More than 1 is better than Kafka."""
    return 1 / ratio if measured.figure.better == LESS else ratio
