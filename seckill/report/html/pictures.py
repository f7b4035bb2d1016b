"""Codec: the charts of the report, from plain numbers to SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import altair as alt
from markupsafe import Markup

from seckill.report.html.charts import (
    ACKNOWLEDGED,
    BACKLOG,
    BLUE,
    DECIDED,
    DIM,
    GREEN,
    INK,
    OFFERED,
    ORANGE,
    RED,
    WIDTH,
    chart_of,
    page_svg,
)
from seckill.report.html.figures import LABEL_ROWS, ArrivalShare, FaultBand, PeakCurves, StageLatency, UnitLevel
from seckill.report.traffic import FunnelStage

RATES = {"offered": OFFERED, "acknowledged": ACKNOWLEDGED, "decided": DECIDED}
UNITS = {"sold": GREEN, "held": ORANGE}
LABEL_WIDTH = 120
"""Taken off the width of a chart whose rows have long labels."""
SECONDS_AXIS = alt.Axis(title="seconds since the first attempt", format=",~r", grid=False)


def funnel_chart(rows: Sequence[tuple[FunnelStage, int]]) -> Markup:
    """One bar for each stage, with its number."""
    names = [stage.value for stage, _ in rows]
    base = chart_of([{"name": stage.value, "count": count} for stage, count in rows]).encode(
        y=alt.Y("name:N", sort=names, axis=alt.Axis(title=None, ticks=False, domain=False)),
        x=alt.X("count:Q", axis=None, scale=alt.Scale(domainMin=0)),
    )
    bars = base.mark_bar(color=BLUE, height=18)
    numbers = base.mark_text(align="left", dx=6, color=INK).encode(text=alt.Text("count:Q", format=","))
    chart = alt.layer(bars, numbers).properties(width=WIDTH - LABEL_WIDTH, height=26 * max(1, len(rows)))
    return page_svg(chart, "number of purchases at each stage")


def peak_chart(curves: PeakCurves, bands: Sequence[FaultBand], sold_out_s: float | None) -> Markup:
    """Rates above and the backlog below on one time axis, with faults as bands and the moment of sold-out as a line."""
    seconds = [number * curves.step_ms / 1000 for number in range(len(curves.backlog))]
    rates = [
        {"at": at, "rate": rate, "series": name}
        for name, values in (
            ("offered", curves.offered),
            ("acknowledged", curves.acknowledged),
            ("decided", curves.decided),
        )
        for at, rate in zip(seconds, values, strict=True)
    ]
    span = alt.Scale(domain=[0, max(seconds[-1], curves.step_ms / 1000)], nice=False)
    x = alt.X("at:Q", axis=SECONDS_AXIS, scale=span)
    lines = (
        chart_of(rates)
        .mark_line(strokeWidth=1.5)
        .encode(
            x=alt.X("at:Q", axis=None, scale=span),
            y=alt.Y("rate:Q", axis=_value_axis("per second", 4)),
            color=_colours(RATES),
            strokeDash=alt.StrokeDash(
                "series:N", scale=alt.Scale(domain=list(RATES), range=[[1, 0], [6, 2], [2, 2]]), legend=None
            ),
        )
    )
    level = [{"at": at, "backlog": count} for at, count in zip(seconds, curves.backlog, strict=True)]
    area = (
        chart_of(level)
        .mark_area(color=BACKLOG, opacity=0.35, line={"color": BACKLOG, "strokeWidth": 1})
        .encode(x=x, y=alt.Y("backlog:Q", axis=_value_axis("backlog", 3)))
    )
    above = alt.layer(*_bands(bands, span), *_marks(sold_out_s, span), lines).properties(width=WIDTH, height=180)
    below = alt.layer(*_bands(bands, span, named=False), area).properties(width=WIDTH, height=90)
    label = "purchases offered, acknowledged and decided per second, and the backlog"
    return page_svg(alt.vconcat(above, below, spacing=8), label)


def _value_axis(title: str, tick_count: int) -> alt.Axis:
    """`titlePadding`: browsers' fonts are wider than Altair's."""
    return alt.Axis(title=title, titlePadding=14, format=",~r", tickCount=tick_count, tickMinStep=1)


def _bands(bands: Sequence[FaultBand], span: alt.Scale, named: bool = True) -> list[alt.Chart]:
    """Faults from their start to their end, with their numbers."""
    if not bands:
        return []
    values = [{"from": band.from_s, "to": band.to_s, "name": band.name} for band in bands]
    base = chart_of(values)
    x = alt.X("from:Q", scale=span, axis=None if named else SECONDS_AXIS)
    charts = [base.mark_rect(color=RED, opacity=0.13, clip=True).encode(x=x, x2="to:Q")]
    for row in range(LABEL_ROWS if named else 0):  # neighbours at different heights, so that numbers do not overlap
        numbers = [{"from": band.from_s, "name": band.name} for band in bands if band.name and band.row == row]
        if numbers:
            text = chart_of(numbers).mark_text(
                align="left", baseline="top", dx=2, y=2 + 13 * row, color=RED, fontSize=11
            )
            charts.append(text.encode(x=x, text="name:N"))
    return charts


def _marks(sold_out_s: float | None, span: alt.Scale) -> list[alt.Chart]:
    if sold_out_s is None:
        return []
    base = chart_of([{"at": sold_out_s, "name": "sold out"}])
    x = alt.X("at:Q", scale=span, axis=None)
    rule = base.mark_rule(color=INK, strokeDash=[4, 3]).encode(x=x)
    return [rule, base.mark_text(align="left", baseline="top", dx=4, y=44, color=INK).encode(x=x, text="name:N")]


def latency_chart(rows: Sequence[StageLatency]) -> Markup:
    """Percentiles of each stage on a logarithmic axis, with a line from the median to the maximum."""
    names = [row.stage for row in rows]
    points = [
        {"stage": row.stage, "ms": max(1, value), "name": name}
        for row in rows
        for name, value in (("p50", row.p50_ms), ("p90", row.p90_ms), ("p99", row.p99_ms), ("max", row.max_ms))
    ]
    spans = [{"stage": row.stage, "from": max(1, row.p50_ms), "to": max(1, row.max_ms)} for row in rows]
    y = alt.Y("stage:N", sort=names, axis=alt.Axis(title=None, ticks=False, domain=False))
    axis = alt.Axis(title="milliseconds", format=",~r", tickCount=6)
    x = alt.X("ms:Q", scale=alt.Scale(type="log"), axis=axis)
    line = (
        chart_of(spans)
        .mark_rule(color=DIM)
        .encode(y=y, x=alt.X("from:Q", scale=alt.Scale(type="log"), axis=axis), x2="to:Q")
    )
    base = chart_of(points).encode(y=y, x=x)
    dots = base.mark_point(filled=True, size=45, opacity=1, color=BLUE).encode(
        shape=alt.Shape(
            "name:N",
            sort=["p50", "p90", "p99", "max"],
            legend=alt.Legend(title=None, orient="top", symbolFillColor=BLUE),
        )
    )
    chart = alt.layer(line, dots).properties(width=WIDTH - LABEL_WIDTH, height=34 * max(1, len(rows)))
    return page_svg(chart, "latency percentiles of each stage")


def unit_chart(levels: Sequence[UnitLevel], declared: int) -> Markup:
    """Units held and sold over time, below a line at the declared stock."""
    values = [
        {"at": level.at_s, "units": units, "series": name}
        for level in levels
        for name, units in (("held", level.held), ("sold", level.sold))
    ]
    areas = (
        chart_of(values)
        .mark_area(interpolate="step-after", opacity=0.6)
        .encode(
            x=alt.X("at:Q", axis=SECONDS_AXIS),
            y=alt.Y("units:Q", stack="zero", axis=alt.Axis(title="units", format=",~r", tickCount=4)),
            color=_colours(UNITS, "square"),
            order=alt.Order("series:N", sort="descending"),
        )
    )
    limit = chart_of([{"units": declared, "name": f"{declared:,} declared"}])
    rule = limit.mark_rule(color=INK, strokeDash=[4, 3]).encode(y="units:Q")
    label = limit.mark_text(align="right", baseline="bottom", x=WIDTH, dy=-3, color=INK).encode(
        y="units:Q", text="name:N"
    )
    chart = alt.layer(areas, rule, label).properties(width=WIDTH, height=140)
    return page_svg(chart, "units held and sold over time")


def fairness_chart(shares: Sequence[ArrivalShare]) -> Markup:
    """The share of requests that got a unit, by order of arrival."""
    values = [{"from": share.first, "to": share.end, "share": share.served} for share in shares]
    bars = (
        chart_of(values)
        .mark_rect(color=GREEN, stroke=None)
        .encode(
            x=alt.X(
                "from:Q", axis=alt.Axis(title="position in order of arrival", format=",~r", grid=False, tickMinStep=1)
            ),
            x2="to:Q",
            y=alt.Y("share:Q", axis=alt.Axis(title="got a unit", format="%", tickCount=3)),
            y2=alt.datum(0),
        )
    )
    return page_svg(bars.properties(width=WIDTH, height=110), "share of requests that got a unit, by order of arrival")


def _colours(series: dict[str, str], symbol: Literal["stroke", "square"] = "stroke") -> alt.Color:
    legend = alt.Legend(title=None, orient="top", symbolType=symbol, symbolStrokeWidth=3, symbolOpacity=1)
    return alt.Color("series:N", scale=alt.Scale(domain=list(series), range=list(series.values())), legend=legend)
