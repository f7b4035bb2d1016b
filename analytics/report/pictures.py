"""Values: the pictures, as SVG that takes its ink from the page: light, dark and on paper alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analytics.measures.timing import middle_ms
from analytics.report import figures
from analytics.schemas import DECISIONS

if TYPE_CHECKING:
    import altair

WIDTH, HEIGHT = 860, 200
INK = "currentColor"
ARRIVED, DECIDED, BACKLOG, GOOD, DIM = "#2a7fbf", "#c9691c", "#8c6bb1", "#3a9150", "#8a8a8a"
CLASSES = {
    "RESERVED": GOOD, "SOLD_OUT": DIM, "DUPLICATE": "#c9a227", "LIMIT_REACHED": "#c98f9f", "CLOSED": "#5b6a8a",
    "TOO_LATE": DECIDED, "INVALID": "#b3261e",
}  # fmt: skip
"""The same thing has the same colour in all pictures."""
ARRIVAL_STEPS_MS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000, 600_000)

Rows = Sequence[dict[str, Any]]


def svg(chart: altair.Chart | altair.LayerChart) -> str:
    import vl_convert

    axis = {
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": DIM,
        "tickColor": DIM,
        "gridColor": DIM,
        "gridOpacity": 0.25,
    }
    styled = (
        chart.properties(
            width=WIDTH, background="transparent", padding={"left": 24, "right": 24, "top": 4, "bottom": 4}
        )
        .configure(font="sans-serif")
        .configure_axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", **axis)
        .configure_view(stroke=None)
        .configure_text(fontSize=12)
        .configure_legend(labelColor=INK, titleColor=INK, orient="top", title=None, labelFontSize=12)
    )
    return str(vl_convert.vegalite_to_svg(styled.to_dict()))


def funnel(totals: Rows) -> str:
    import altair as alt

    rows = [stage._asdict() for stage in figures.funnel(totals)]
    base = _chart(rows).encode(y=alt.Y("stage:N", sort=None, title=None), x=_number("purchases"))
    numbers = base.mark_text(align="left", dx=4, fill=INK).encode(text=alt.Text("purchases:Q", format=",d"))
    return svg((base.mark_bar(color=ARRIVED) + numbers).properties(height=140))


def peak(flow: Rows, step_ms: int) -> str:
    import altair as alt

    points = figures.peak(flow, step_ms)
    rows = [
        {"at": point.at_ms, "what": what, "rate": count * 1000 / step_ms}
        for point in points
        for what, count in (("arrived", point.arrived), ("decided", point.decided))
    ]
    colour = alt.Color("what:N", scale=alt.Scale(domain=["arrived", "decided"], range=[ARRIVED, DECIDED]))
    chart = _chart(rows).mark_line(interpolate="step-after", strokeWidth=1.5)
    return svg(chart.encode(x=_time(), y=alt.Y("rate:Q", title="per second"), color=colour).properties(height=HEIGHT))


def backlog(flow: Rows, step_ms: int) -> str:
    import altair as alt

    rows = [{"at": point.at_ms, "backlog": point.backlog} for point in figures.peak(flow, step_ms)]
    chart = _chart(rows).mark_area(interpolate="step-after", color=BACKLOG, opacity=0.6)
    return svg(chart.encode(x=_time(), y=alt.Y("backlog:Q", title="not decided")).properties(height=HEIGHT // 2))


def decisions(flow: Rows, step_ms: int) -> str:
    import altair as alt

    counts: dict[tuple[int, str], int] = {}
    for row in flow:
        if row["kind"] in DECISIONS:
            counts[row["at_ms"], row["kind"]] = counts.get((row["at_ms"], row["kind"]), 0) + row["events"]
    rows = [{"at": at, "decision": kind, "rate": count * 1000 / step_ms} for (at, kind), count in counts.items()]
    chart = _chart(rows).mark_bar(width=max(1, WIDTH // max(1, len({row["at"] for row in rows})) - 1))
    y = alt.Y("rate:Q", title="decisions per second", stack="zero")
    seen = [kind for kind in CLASSES if kind in {row["decision"] for row in rows}]
    colour = alt.Color("decision:N", scale=alt.Scale(domain=seen, range=[CLASSES[kind] for kind in seen]))
    return svg(chart.encode(x=_time(), y=y, color=colour).properties(height=HEIGHT))


def sell_through(rows: Rows) -> str:
    import altair as alt

    points = [
        {"at": point.at_ms, "sku": point.sku, "units": units, "what": what}
        for point in figures.sell_through(rows)
        for what, units in (("taken", point.taken), ("paid", point.paid))
    ]
    chart = _chart(points).mark_line(interpolate="step-after", strokeWidth=1.5)
    return svg(
        chart.encode(
            x=_time(), y=alt.Y("units:Q", title="units"), color=alt.Color("sku:N"),
            strokeDash=alt.StrokeDash("what:N", sort=["taken", "paid"]),
        ).properties(height=HEIGHT)
    )  # fmt: skip


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
    points = [{"at": at, "amount": amount} for at, amount in sorted(minutes.items())]
    chart = _chart(points).mark_bar(color=GOOD, width=max(2, min(40, WIDTH // (len(points) + 1) - 2)))
    return svg(chart.encode(x=_time(), y=alt.Y("amount:Q", title="smallest coin, a minute")).properties(height=HEIGHT))


def _chart(rows: list[dict[str, Any]]) -> altair.Chart:
    import altair as alt

    return alt.Chart(alt.Data(values=rows))  # type: ignore[no-untyped-call]


def _number(column: str) -> Any:
    import altair as alt

    return alt.X(f"{column}:Q", title=column, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=8, labelOverlap=True))


def _time() -> Any:
    import altair as alt

    return alt.X(
        "at:T", title="time (UTC)", scale=alt.Scale(type="utc"), axis=alt.Axis(tickCount=12, labelOverlap=True)
    )
