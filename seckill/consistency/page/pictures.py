"""Pictures as SVG, drawn by Vega-Lite without a browser. Colours are the page's own, light or dark as it is.

Vega knows no CSS variables, so each colour is drawn as a stand-in and exchanged in the finished picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import vl_convert

from seckill.consistency.page.figures import Band, Latency, Level, Peak, Share

WIDTH = 720
INK, DIM, RULE = "#010101", "#020202", "#030303"
BLUE, ORANGE, GREEN, RED = "#0a0a01", "#0a0a02", "#0a0a03", "#0a0a04"
COLOURS = {
    INK: "currentColor",
    DIM: "var(--dim)",
    RULE: "var(--line)",
    BLUE: "var(--a)",
    ORANGE: "var(--b)",
    GREEN: "var(--c)",
    RED: "var(--bad)",
}
SERIES = {"offered": BLUE, "acknowledged": ORANGE, "decided": GREEN}
ACCOUNTS = {"sold": GREEN, "held": ORANGE}
LIKE_SECONDS = alt.Axis(title="seconds since the first attempt", format=",~r", grid=False)


def funnel(rows: Sequence[tuple[str, int]]) -> str:
    """How many came how far: one bar a row, with its number."""
    names = [name for name, _ in rows]
    base = _of([{"name": name, "count": count} for name, count in rows]).encode(
        y=alt.Y("name:N", sort=names, axis=alt.Axis(title=None, ticks=False, domain=False)),
        x=alt.X("count:Q", axis=None, scale=alt.Scale(domainMin=0)),
    )
    bars = base.mark_bar(color=BLUE, height=18)
    numbers = base.mark_text(align="left", dx=6, color=INK).encode(text=alt.Text("count:Q", format=","))
    return drawn(alt.layer(bars, numbers).properties(width=WIDTH - 120, height=26 * max(1, len(rows))), "the funnel")


def peak(found: Peak, bands: Sequence[Band], sold_out_s: float | None) -> str:
    """The peak, absorbed: rates above, the backlog below, on one axis of time; faults are bands, sold out is a line."""
    seconds = [number * found.step_ms / 1000 for number in range(len(found.backlog))]
    rates = [
        {"at": at, "rate": rate, "series": name}
        for name, values in (
            ("offered", found.offered),
            ("acknowledged", found.acknowledged),
            ("decided", found.decided),
        )
        for at, rate in zip(seconds, values, strict=True)
    ]
    span = alt.Scale(domain=[0, max(seconds[-1], found.step_ms / 1000)], nice=False)
    x = alt.X("at:Q", axis=LIKE_SECONDS, scale=span)
    lines = (
        _of(rates)
        .mark_line(strokeWidth=1.5)
        .encode(
            x=alt.X("at:Q", axis=None, scale=span),
            y=alt.Y("rate:Q", axis=alt.Axis(title="per second", format=",~r", tickCount=4)),
            color=_colours(SERIES),
            strokeDash=alt.StrokeDash(
                "series:N", scale=alt.Scale(domain=list(SERIES), range=[[1, 0], [6, 2], [2, 2]]), legend=None
            ),
        )
    )
    level = [{"at": at, "backlog": count} for at, count in zip(seconds, found.backlog, strict=True)]
    area = (
        _of(level)
        .mark_area(color=BLUE, opacity=0.35, line={"color": BLUE, "strokeWidth": 1})
        .encode(x=x, y=alt.Y("backlog:Q", axis=alt.Axis(title="backlog", format=",~r", tickCount=3, tickMinStep=1)))
    )
    above = alt.layer(*_bands(bands, span), *_marks(sold_out_s, span), lines).properties(width=WIDTH, height=180)
    below = alt.layer(*_bands(bands, span, named=False), area).properties(width=WIDTH, height=90)
    return drawn(alt.vconcat(above, below, spacing=8), "offered, acknowledged and decided per second, and the backlog")


def _bands(bands: Sequence[Band], span: alt.Scale, named: bool = True) -> list[alt.Chart]:
    """Faults, from their first blow to the last; their names where there is room for them."""
    if not bands:
        return []
    values = [{"from": band.from_s, "to": band.to_s, "name": band.name} for band in bands]
    base = _of(values)
    x = alt.X("from:Q", scale=span, axis=None if named else LIKE_SECONDS)
    charts = [base.mark_rect(color=RED, opacity=0.13, clip=True).encode(x=x, x2="to:Q")]
    if named:
        labels = base.mark_text(align="left", baseline="top", dx=3, y=2, color=RED, fontSize=11)
        charts.append(labels.encode(x=x, text="name:N"))
    return charts


def _marks(sold_out_s: float | None, span: alt.Scale) -> list[alt.Chart]:
    if sold_out_s is None:
        return []
    base = _of([{"at": sold_out_s, "name": "nothing left"}])
    x = alt.X("at:Q", scale=span, axis=None)
    rule = base.mark_rule(color=INK, strokeDash=[4, 3]).encode(x=x)
    return [rule, base.mark_text(align="left", baseline="top", dx=4, y=16, color=INK).encode(x=x, text="name:N")]


def latencies(rows: Sequence[Latency]) -> str:
    """Percentiles by stage, on a logarithmic axis: a stage is a line from its half to its most."""
    names = [row.stage for row in rows]
    points = [
        {"stage": row.stage, "ms": max(1, value), "name": name}
        for row in rows
        for name, value in (("p50", row.p50_ms), ("p90", row.p90_ms), ("p99", row.p99_ms), ("most", row.most_ms))
    ]
    spans = [{"stage": row.stage, "from": max(1, row.p50_ms), "to": max(1, row.most_ms)} for row in rows]
    y = alt.Y("stage:N", sort=names, axis=alt.Axis(title=None, ticks=False, domain=False))
    axis = alt.Axis(title="milliseconds", format=",~r", tickCount=6)
    x = alt.X("ms:Q", scale=alt.Scale(type="log"), axis=axis)
    line = (
        _of(spans)
        .mark_rule(color=DIM)
        .encode(y=y, x=alt.X("from:Q", scale=alt.Scale(type="log"), axis=axis), x2="to:Q")
    )
    base = _of(points).encode(y=y, x=x)
    dots = base.mark_point(filled=True, size=45, opacity=1, color=BLUE).encode(
        shape=alt.Shape(
            "name:N",
            sort=["p50", "p90", "p99", "most"],
            legend=alt.Legend(title=None, orient="top", symbolFillColor=BLUE),
        )
    )
    return drawn(alt.layer(line, dots).properties(width=WIDTH - 120, height=34 * max(1, len(rows))), "latencies")


def sell_through(levels: Sequence[Level], declared: int) -> str:
    """Units held and sold over time, against what was declared."""
    values = [
        {"at": level.at_s, "units": units, "series": name}
        for level in levels
        for name, units in (("held", level.held), ("sold", level.sold))
    ]
    areas = (
        _of(values)
        .mark_area(interpolate="step-after", opacity=0.6)
        .encode(
            x=alt.X("at:Q", axis=LIKE_SECONDS),
            y=alt.Y("units:Q", stack="zero", axis=alt.Axis(title="units", format=",~r", tickCount=4)),
            color=_colours(ACCOUNTS, "square"),
            order=alt.Order("series:N", sort="descending"),
        )
    )
    limit = _of([{"units": declared, "name": f"{declared:,} declared"}])
    rule = limit.mark_rule(color=INK, strokeDash=[4, 3]).encode(y="units:Q")
    label = limit.mark_text(align="right", baseline="bottom", x=WIDTH, dy=-3, color=INK).encode(
        y="units:Q", text="name:N"
    )
    return drawn(alt.layer(areas, rule, label).properties(width=WIDTH, height=140), "units held and sold over time")


def fairness(shares: Sequence[Share]) -> str:
    """Who came early got it: the share of those who got a unit, by order of arrival."""
    values = [{"from": share.first, "to": share.end, "share": share.served} for share in shares]
    bars = (
        _of(values)
        .mark_rect(color=GREEN, stroke=None)
        .encode(
            x=alt.X(
                "from:Q", axis=alt.Axis(title="place in the order of arrival", format=",~r", grid=False, tickMinStep=1)
            ),
            x2="to:Q",
            y=alt.Y("share:Q", axis=alt.Axis(title="got a unit", format="%", tickCount=3)),
            y2=alt.datum(0),
        )
    )
    return drawn(bars.properties(width=WIDTH, height=110), "share of those who got a unit, by order of arrival")


def _of(rows: Sequence[dict[str, Any]]) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=list(rows)))


def _colours(series: dict[str, str], symbol: Literal["stroke", "square"] = "stroke") -> alt.Color:
    legend = alt.Legend(title=None, orient="top", symbolType=symbol, symbolStrokeWidth=3, symbolOpacity=1)
    return alt.Color("series:N", scale=alt.Scale(domain=list(series), range=list(series.values())), legend=legend)


def drawn(chart: Any, label: str) -> str:
    """The picture as it stands in the page, named for those who cannot see it."""
    config = {
        "background": None,
        "font": "sans-serif",
        "view": {"stroke": None},
        "axis": {
            "labelColor": DIM, "titleColor": DIM, "domainColor": RULE, "tickColor": RULE, "gridColor": RULE,
            "titleFontWeight": "normal", "labelFontSize": 12, "titleFontSize": 12, "labelLimit": 220,
        },
        "legend": {"labelColor": INK, "labelFontSize": 12},
        "text": {"fontSize": 12},
    }  # fmt: skip
    picture = vl_convert.vegalite_to_svg({**chart.to_dict(), "config": config})
    for stand_in, colour in COLOURS.items():
        picture = picture.replace(stand_in, colour)
    return picture.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
