"""Codec: the charts of the statistics page, from rows of the tables to SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
from markupsafe import Markup

from analytics.measures.timing import middle_ms
from analytics.report import activity, figures
from analytics.schemas import DECISIONS
from seckill.report.html import charts
from seckill.report.html.charts import ARRIVED, BACKLOG, DECIDED, DIM, GREEN, INK, WIDTH, chart_of, page_svg

HEIGHT = 200
LABEL_WIDTH = 120
SPAN_WIDTH_MIN = 90
SPACING = 16
MINUTE_MS = 60_000
ARRIVAL_STEPS_MS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000, 600_000)

Rows = Sequence[dict[str, Any]]
Draw = Callable[[Any, Any], Any]
"""Adds marks to a chart, given its time axis."""


def over_time(rows: list[dict[str, Any]], step_ms: int, height: int, y: Any, draw: Draw) -> Any:
    """One chart for each span of activity, side by side on one scale. A title above each shows how long the pause was.

    A row with `is_busy` False is drawn but does not extend a span. Each row lasts `until` one step later.
    """
    spans = activity.spans((row["at"] for row in rows if row.get("is_busy", True)), step_ms)
    room = WIDTH - (len(spans) - 1) * (SPAN_WIDTH_MIN + SPACING)
    total_ms = sum(span.to_ms - span.from_ms for span in spans)
    parts: list[Any] = []
    for number, span in enumerate(spans):
        width = SPAN_WIDTH_MIN * (number > 0) + room * (span.to_ms - span.from_ms) // total_ms
        x = alt.X(
            "at:T",
            title=None if number else "time (UTC)",
            scale=alt.Scale(type="utc", domain=[span.from_ms, span.to_ms], nice=False),
            axis=alt.Axis(tickCount=max(2, 10 * width // WIDTH), labelSeparation=10, format=_time_format(span)),
        )
        mine = [row | {"until": row["at"] + step_ms} for row in rows if span.from_ms <= row["at"] <= span.to_ms]
        chart = draw(chart_of(mine), x).encode(y=y if not number else y.copy().axis(None))
        if number:
            pause_ms = span.from_ms - spans[number - 1].to_ms
            chart = chart.properties(title=f"⋯ {activity.duration_text(pause_ms)} later")
        parts.append(chart.properties(width=width, height=height))
    return alt.hconcat(*parts, spacing=SPACING).resolve_scale(y="shared", color="shared", strokeDash="shared")


def _time_format(span: activity.Span) -> str:
    seconds = (span.to_ms - span.from_ms) / 1000
    return "%H:%M:%S" if seconds < 600 else "%H:%M" if seconds < 36 * 3600 else "%b %d"


def funnel(totals: Rows) -> Markup:
    rows = [{"stage": stage.value, "purchases": count} for stage, count in figures.purchase_funnel(totals)]
    return page_svg(_bars(rows, "stage", "purchases"), "number of purchases at each stage")


def peak(flow: Rows, step_ms: int) -> Markup:
    return page_svg(peak_chart(flow, step_ms), "requests arrived and decided per second")


def peak_chart(flow: Rows, step_ms: int) -> Any:
    rows = [
        {"at": step.at_ms, "what": what, "rate": count * 1000 / step_ms, "is_busy": step.arrived + step.decided > 0}
        for step in figures.flow_steps(flow, step_ms)
        for what, count in (("arrived", step.arrived), ("decided", step.decided))
    ]
    colour = alt.Color("what:N", scale=alt.Scale(domain=["arrived", "decided"], range=[ARRIVED, DECIDED]))
    y = alt.Y("rate:Q", title="per second")
    line = {"interpolate": "step-after", "strokeWidth": 1.5}
    return over_time(rows, step_ms, HEIGHT, y, lambda chart, x: chart.mark_line(**line).encode(x=x, color=colour))


def backlog(flow: Rows, step_ms: int) -> Markup:
    return page_svg(backlog_chart(flow, step_ms), "requests that wait for a decision")


def backlog_chart(flow: Rows, step_ms: int) -> Any:
    rows = [
        {"at": step.at_ms, "backlog": step.backlog, "is_busy": step.arrived + step.decided > 0}
        for step in figures.flow_steps(flow, step_ms)
    ]
    y = alt.Y("backlog:Q", title="not decided")
    area = {"interpolate": "step-after", "color": BACKLOG, "opacity": 0.6}
    return over_time(rows, step_ms, HEIGHT // 2, y, lambda chart, x: chart.mark_area(**area).encode(x=x))


def decisions(flow: Rows, step_ms: int) -> Markup:
    counts: dict[tuple[int, str], int] = {}
    for row in flow:
        if row["kind"] in DECISIONS:
            counts[row["at_ms"], row["kind"]] = counts.get((row["at_ms"], row["kind"]), 0) + row["events"]
    seen = [kind for kind in charts.DECISIONS if kind in {row["kind"] for row in flow}]
    rows = []
    for at in sorted({at for at, _ in counts}):
        top = 0.0
        for kind in seen:
            rate = counts.get((at, kind), 0) * 1000 / step_ms
            rows.append({"at": at, "decision": kind, "rate": rate, "from": top, "to": top + rate})
            top += rate
    y = alt.Y("from:Q", title="decisions per second")
    scale = alt.Scale(domain=seen, range=[charts.DECISIONS[kind] for kind in seen])
    colour = alt.Color("decision:N", scale=scale)
    chart = over_time(
        rows, step_ms, HEIGHT, y,
        lambda chart, x: chart.mark_rect().encode(x=x, x2="until:T", y2="to:Q", color=colour),
    )  # fmt: skip
    return page_svg(chart, "decisions per second by result")


def sell_through(rows: Rows, step_ms: int) -> Markup:
    return page_svg(sell_through_chart(rows, step_ms), "units reserved and paid over time")


def sell_through_chart(rows: Rows, step_ms: int) -> Any:
    points: list[dict[str, Any]] = [
        {"at": point.at_ms, "sku": point.sku, "units": units, "what": what}
        for point in figures.sell_through(rows)
        for what, units in (("reserved", point.reserved), ("paid", point.paid))
    ]
    points += _levels_at_edges(points, activity.spans((point["at"] for point in points), step_ms))
    y = alt.Y("units:Q", title="units")
    dash = alt.StrokeDash("what:N", sort=["reserved", "paid"])
    line = {"interpolate": "step-after", "strokeWidth": 1.5}
    return over_time(
        points, step_ms, HEIGHT, y,
        lambda chart, x: chart.mark_line(**line).encode(x=x, color=alt.Color("sku:N"), strokeDash=dash),
    )  # fmt: skip


def _levels_at_edges(points: list[dict[str, Any]], spans: list[activity.Span]) -> list[dict[str, Any]]:
    """The level of each curve at the edges of each span, because a curve of units keeps its level during a pause."""
    edges = []
    for sku, what in {(point["sku"], point["what"]) for point in points}:
        mine = [point for point in points if (point["sku"], point["what"]) == (sku, what)]
        for at in (edge for span in spans for edge in span):
            level = next((point["units"] for point in reversed(mine) if point["at"] <= at), 0)
            edges.append({"at": at, "sku": sku, "what": what, "units": level, "is_busy": False})
    return edges


def latency(rows: Rows) -> Markup:
    counts: dict[tuple[str, int], int] = {}
    for row in rows:
        counts[row["stage"], row["bucket"]] = counts.get((row["stage"], row["bucket"]), 0) + row["events"]
    totals: dict[str, int] = {}
    for (stage, _), events in counts.items():
        totals[stage] = totals.get(stage, 0) + events
    points = [
        {"stage": stage, "ms": max(1.0, middle_ms(bucket)), "share": events / totals[stage]}
        for (stage, bucket), events in sorted(counts.items())
    ]
    x = alt.X("ms:Q", title="ms since admission (log axis)", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s"))
    y = alt.Y("share:Q", title="share of events", axis=alt.Axis(format="%"))
    colour = alt.Color("stage:N", sort=list(figures.STAGES))
    chart = chart_of(points).mark_line(strokeWidth=1.5).encode(x=x, y=y, color=colour)
    return page_svg(chart.properties(width=WIDTH, height=HEIGHT), "distribution of latency by stage")


def fairness(rows: Rows) -> Markup:
    spans = [[row["came_ms"] for row in mine] for mine in figures.grouped_by(rows, "sale_id")]
    step_ms = next((step for step in ARRIVAL_STEPS_MS if max(max(s) - min(s) for s in spans) <= 100 * step), 3_600_000)
    points = [
        {"from": each.after_ms / 1000, "to": (each.after_ms + step_ms) / 1000, "what": what, "requests": count}
        for each in figures.arrivals(rows, step_ms)
        for what, count in (("granted", each.granted), ("sold out", each.refused))
    ]
    colour = alt.Color("what:N", scale=alt.Scale(domain=["granted", "sold out"], range=[GREEN, DIM]))
    x = alt.X("from:Q", bin="binned", title="seconds after the sale's first request", axis=alt.Axis(tickCount=12))
    y = alt.Y("requests:Q", title=f"requests in {step_ms / 1000:g} s", stack="zero")
    chart = chart_of(points).mark_bar().encode(x=x, x2="to:Q", y=y, color=colour)
    return page_svg(chart.properties(width=WIDTH, height=HEIGHT), "requests granted and refused by time of arrival")


def skus(rows: Rows) -> Markup:
    points = [{"sku": f"{row['sku']} (sale {row['sale_id']})", "requests": row["requests"]} for row in rows]
    return page_svg(_bars(points, "sku", "requests"), "requests for each article")


def revenue(rows: Rows) -> Markup:
    minutes: dict[int, int] = {}
    for row in rows:
        minutes[row["at_ms"]] = minutes.get(row["at_ms"], 0) + row["amount"] - row["refunded"]
    points = [{"at": at, "amount": amount, "nothing": 0} for at, amount in sorted(minutes.items())]
    y = alt.Y("amount:Q", title="smallest coins per minute")
    chart = over_time(
        points, MINUTE_MS, HEIGHT, y,
        lambda chart, x: chart.mark_rect(color=GREEN).encode(x=x, x2="until:T", y2="nothing:Q"),
    )  # fmt: skip
    return page_svg(chart, "revenue per minute")


def _bars(rows: Rows, name: str, number: str) -> Any:
    """One horizontal bar for each row, with its number."""
    y = alt.Y(f"{name}:N", sort=None, axis=alt.Axis(title=None, ticks=False, domain=False))
    x = alt.X(f"{number}:Q", axis=None, scale=alt.Scale(domainMin=0))
    base = chart_of(rows).encode(y=y, x=x)
    text = base.mark_text(align="left", dx=6, color=INK).encode(text=alt.Text(f"{number}:Q", format=","))
    bars = base.mark_bar(color=charts.BLUE, height=18)
    return alt.layer(bars, text).properties(width=WIDTH - LABEL_WIDTH, height=26 * max(1, len(rows)))
