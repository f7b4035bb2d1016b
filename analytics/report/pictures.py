"""Values: the pictures, as SVG that takes its ink from the page: light, dark and on paper alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from analytics.measures.timing import middle_ms
from analytics.report import activity, figures
from analytics.schemas import DECISIONS

if TYPE_CHECKING:
    import altair

WIDTH, HEIGHT = 860, 200
NARROWEST = 90
SPACING = 16
MINUTE_MS = 60_000
INK = "currentColor"
ARRIVED, DECIDED, BACKLOG, GOOD, DIM = "#2a7fbf", "#c9691c", "#8c6bb1", "#3a9150", "#8a8a8a"
CLASSES = {
    "RESERVED": GOOD, "SOLD_OUT": DIM, "DUPLICATE": "#c9a227", "LIMIT_REACHED": "#c98f9f", "CLOSED": "#5b6a8a",
    "TOO_LATE": DECIDED, "INVALID": "#b3261e",
}  # fmt: skip
"""The same thing has the same colour in all pictures."""
ARRIVAL_STEPS_MS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000, 600_000)

Rows = Sequence[dict[str, Any]]


def svg(chart: altair.TopLevelMixin) -> str:
    import vl_convert

    return str(vl_convert.vegalite_to_svg(styled(chart)))


def styled(chart: Any) -> dict[str, Any]:
    """As Vega-Lite's specification."""
    axis = {
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": DIM,
        "tickColor": DIM,
        "gridColor": DIM,
        "gridOpacity": 0.25,
    }
    made: dict[str, Any] = (
        chart.properties(background="transparent", padding={"left": 24, "right": 24, "top": 4, "bottom": 4})
        .configure(font="sans-serif")
        .configure_axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", **axis)
        .configure_view(stroke=None, continuousWidth=WIDTH)
        .configure_text(fontSize=12)
        .configure_title(color=INK, fontSize=12, fontWeight="normal", anchor="start")
        .configure_legend(labelColor=INK, titleColor=INK, orient="top", title=None, labelFontSize=12)
        .to_dict()
    )
    return made


Draw = Callable[[Any, Any], Any]
"""From a chart with its rows and its time axis to the chart with marks on it."""


def over_time(rows: list[dict[str, Any]], step_ms: int, height: int, y: Any, draw: Draw) -> Any:
    """One chart for each span of activity, side by side on one scale; what the pause lasted stands above the next.

    A row with `is_busy` False is drawn but makes no span of its own. Each row lasts `until` a step later.
    """
    import altair as alt

    found = activity.spans((row["at"] for row in rows if row.get("is_busy", True)), step_ms)
    room = WIDTH - (len(found) - 1) * (NARROWEST + SPACING)
    total_ms = sum(span.to_ms - span.from_ms for span in found)
    charts: list[Any] = []
    for number, span in enumerate(found):
        width = NARROWEST * (number > 0) + room * (span.to_ms - span.from_ms) // total_ms
        x = alt.X(
            "at:T",
            title=None if number else "time (UTC)",
            scale=alt.Scale(type="utc", domain=[span.from_ms, span.to_ms], nice=False),
            axis=alt.Axis(tickCount=max(2, 10 * width // WIDTH), labelSeparation=10, format=_clock(span)),
        )
        mine = [row | {"until": row["at"] + step_ms} for row in rows if span.from_ms <= row["at"] <= span.to_ms]
        chart = draw(_chart(mine), x).encode(y=y if not number else y.copy().axis(None))
        if number:
            pause_ms = span.from_ms - found[number - 1].to_ms
            chart = chart.properties(title=f"⋯ {activity.lasted(pause_ms)} later")
        charts.append(chart.properties(width=width, height=height))
    return alt.hconcat(*charts, spacing=SPACING).resolve_scale(y="shared", color="shared", strokeDash="shared")


def _clock(span: activity.Span) -> str:
    seconds = (span.to_ms - span.from_ms) / 1000
    return "%H:%M:%S" if seconds < 600 else "%H:%M" if seconds < 36 * 3600 else "%b %d"


def funnel(totals: Rows) -> str:
    import altair as alt

    rows = [stage._asdict() for stage in figures.funnel(totals)]
    base = _chart(rows).encode(y=alt.Y("stage:N", sort=None, title=None), x=_number("purchases"))
    numbers = base.mark_text(align="left", dx=4, fill=INK).encode(text=alt.Text("purchases:Q", format=",d"))
    return svg((base.mark_bar(color=ARRIVED) + numbers).properties(height=140))


def peak(flow: Rows, step_ms: int) -> str:
    return svg(peak_chart(flow, step_ms))


def peak_chart(flow: Rows, step_ms: int) -> Any:
    import altair as alt

    rows = [
        {"at": point.at_ms, "what": what, "rate": count * 1000 / step_ms, "is_busy": point.arrived + point.decided > 0}
        for point in figures.peak(flow, step_ms)
        for what, count in (("arrived", point.arrived), ("decided", point.decided))
    ]
    colour = alt.Color("what:N", scale=alt.Scale(domain=["arrived", "decided"], range=[ARRIVED, DECIDED]))
    y = alt.Y("rate:Q", title="per second")
    line = {"interpolate": "step-after", "strokeWidth": 1.5}
    return over_time(rows, step_ms, HEIGHT, y, lambda chart, x: chart.mark_line(**line).encode(x=x, color=colour))


def backlog(flow: Rows, step_ms: int) -> str:
    return svg(backlog_chart(flow, step_ms))


def backlog_chart(flow: Rows, step_ms: int) -> Any:
    import altair as alt

    rows = [
        {"at": point.at_ms, "backlog": point.backlog, "is_busy": point.arrived + point.decided > 0}
        for point in figures.peak(flow, step_ms)
    ]
    y = alt.Y("backlog:Q", title="not decided")
    area = {"interpolate": "step-after", "color": BACKLOG, "opacity": 0.6}
    return over_time(rows, step_ms, HEIGHT // 2, y, lambda chart, x: chart.mark_area(**area).encode(x=x))


def decisions(flow: Rows, step_ms: int) -> str:
    import altair as alt

    counts: dict[tuple[int, str], int] = {}
    for row in flow:
        if row["kind"] in DECISIONS:
            counts[row["at_ms"], row["kind"]] = counts.get((row["at_ms"], row["kind"]), 0) + row["events"]
    seen = [kind for kind in CLASSES if kind in {row["kind"] for row in flow}]
    rows = []
    for at in sorted({at for at, _ in counts}):
        top = 0.0
        for kind in seen:
            rate = counts.get((at, kind), 0) * 1000 / step_ms
            rows.append({"at": at, "decision": kind, "rate": rate, "from": top, "to": top + rate})
            top += rate
    y = alt.Y("from:Q", title="decisions per second")
    colour = alt.Color("decision:N", scale=alt.Scale(domain=seen, range=[CLASSES[kind] for kind in seen]))
    return svg(
        over_time(
            rows, step_ms, HEIGHT, y,
            lambda chart, x: chart.mark_rect().encode(x=x, x2="until:T", y2="to:Q", color=colour),
        )
    )  # fmt: skip


def sell_through(rows: Rows, step_ms: int) -> str:
    return svg(sell_through_chart(rows, step_ms))


def sell_through_chart(rows: Rows, step_ms: int) -> Any:
    import altair as alt

    points: list[dict[str, Any]] = [
        {"at": point.at_ms, "sku": point.sku, "units": units, "what": what}
        for point in figures.sell_through(rows)
        for what, units in (("taken", point.taken), ("paid", point.paid))
    ]
    points += _levels_at_edges(points, activity.spans((point["at"] for point in points), step_ms))
    y = alt.Y("units:Q", title="units")
    dash = alt.StrokeDash("what:N", sort=["taken", "paid"])
    line = {"interpolate": "step-after", "strokeWidth": 1.5}
    return over_time(
        points, step_ms, HEIGHT, y,
        lambda chart, x: chart.mark_line(**line).encode(x=x, color=alt.Color("sku:N"), strokeDash=dash),
    )  # fmt: skip


def _levels_at_edges(points: list[dict[str, Any]], found: list[activity.Span]) -> list[dict[str, Any]]:
    """What each curve shows where a span begins and ends: a curve of units keeps its level over a pause."""
    edges = []
    for sku, what in {(point["sku"], point["what"]) for point in points}:
        mine = [point for point in points if (point["sku"], point["what"]) == (sku, what)]
        for at in (edge for span in found for edge in span):
            level = next((point["units"] for point in reversed(mine) if point["at"] <= at), 0)
            edges.append({"at": at, "sku": sku, "what": what, "units": level, "is_busy": False})
    return edges


def latency(rows: Rows) -> str:
    import altair as alt

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
    y = alt.Y("share:Q", title="share of all", axis=alt.Axis(format="%"))
    chart = _chart(points).mark_line(strokeWidth=1.5)
    return svg(chart.encode(x=x, y=y, color=alt.Color("stage:N", sort=list(figures.STAGES))).properties(height=HEIGHT))


def fairness(rows: Rows) -> str:
    import altair as alt

    spans = [[row["came_ms"] for row in mine] for mine in figures.by(rows, "sale_id")]
    step_ms = next((step for step in ARRIVAL_STEPS_MS if max(max(s) - min(s) for s in spans) <= 100 * step), 3_600_000)
    points = [
        {"from": each.after_ms / 1000, "to": (each.after_ms + step_ms) / 1000, "what": what, "requests": count}
        for each in figures.arrivals(rows, step_ms)
        for what, count in (("granted", each.granted), ("sold out", each.refused))
    ]
    colour = alt.Color("what:N", scale=alt.Scale(domain=["granted", "sold out"], range=[GOOD, DIM]))
    axis = alt.Axis(tickCount=12)
    x = alt.X("from:Q", bin="binned", title="seconds after the sale's first request", axis=axis)
    y = alt.Y("requests:Q", title=f"requests in {step_ms / 1000:g} s", stack="zero")
    return svg(_chart(points).mark_bar().encode(x=x, x2="to:Q", y=y, color=colour).properties(height=HEIGHT))


def skus(rows: Rows) -> str:
    import altair as alt

    points = [{"sku": f"{row['sku']} (sale {row['sale_id']})", "requests": row["requests"]} for row in rows]
    base = _chart(points).encode(y=alt.Y("sku:N", sort=None, title=None), x=_number("requests"))
    numbers = base.mark_text(align="left", dx=4, fill=INK).encode(text=alt.Text("requests:Q", format=",d"))
    return svg((base.mark_bar(color=ARRIVED) + numbers).properties(height=22 * len(points) + 20))


def revenue(rows: Rows) -> str:
    import altair as alt

    minutes: dict[int, int] = {}
    for row in rows:
        minutes[row["at_ms"]] = minutes.get(row["at_ms"], 0) + row["amount"] - row["refunded"]
    points = [{"at": at, "amount": amount, "nothing": 0} for at, amount in sorted(minutes.items())]
    y = alt.Y("amount:Q", title="smallest coin, a minute")
    return svg(
        over_time(
            points, MINUTE_MS, HEIGHT, y,
            lambda chart, x: chart.mark_rect(color=GOOD).encode(x=x, x2="until:T", y2="nothing:Q"),
        )
    )  # fmt: skip


def _chart(rows: list[dict[str, Any]]) -> altair.Chart:
    import altair as alt

    return alt.Chart(alt.Data(values=rows))  # type: ignore[no-untyped-call]


def _number(column: str) -> Any:
    import altair as alt

    return alt.X(f"{column}:Q", title=column, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=8, labelOverlap=True))
