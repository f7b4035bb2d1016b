"""Codec: the wait of 99 % of the buyers against the number of consumers, as an SVG file, from simulated rushes."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from loadtest.capacity.simulation import Processes, Rush, Speeds, simulate
from seckill.messaging.topics import PARTITIONS

CROWDS = (10_000, 100_000, 1_000_000, 10_000_000)
CONSUMERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
BUYERS_PER_UNIT = 40
AS_BUILT, WITH_RELAYS = "one relay (as built)", "a relay for each consumer"
WAITS_S = [0.01, 0.1, 1, 10, 100, 1000]
HEIGHT = 320


def points(speeds: Speeds, over_s: float, announce: Callable[[str], None] = lambda text: None) -> list[dict[str, Any]]:
    rows = []
    for buyers in CROWDS:
        announce(f"simulate {buyers:,} buyers")
        gateways = ceil(buyers / over_s * speeds.accept_s) + 1
        for consumers in CONSUMERS:
            for design in (AS_BUILT, WITH_RELAYS):
                relays = 1 if design == AS_BUILT else consumers
                processes = Processes(gateways, max(PARTITIONS, consumers), consumers, consumers, relays)
                waits = simulate(Rush(buyers, over_s, buyers // BUYERS_PER_UNIT), processes, speeds)
                rows.append(
                    {"buyers": f"{buyers:,} buyers", "consumers": consumers, "wait": waits.p99_s, "design": design}
                )
    return rows


def svg(rows: list[dict[str, Any]], over_s: float) -> str:
    import altair as alt  # takes more than a second

    from seckill.report.html.charts import WIDTH, chart_of, file_svg

    label = "the wait of 99 % of the buyers against the number of consumers"
    ticks = [each for each in CONSUMERS if each not in (3, 6, 12, 24, 48)]
    x = alt.X(
        "consumers:Q", title="consumers of inventory", scale=alt.Scale(type="log", base=2), axis=alt.Axis(values=ticks)
    )
    waits = alt.Axis(values=WAITS_S, format="~g")
    y = alt.Y("wait:Q", title="99 % know their outcome after, s", scale=alt.Scale(type="log"), axis=waits)
    colour = alt.Color("buyers:N", sort=[f"{buyers:,} buyers" for buyers in CROWDS])
    dash = alt.StrokeDash("design:N", sort=[AS_BUILT, WITH_RELAYS])
    title = alt.TitleParams(f"Simulated rushes: buyers arrive within {over_s:g} s", fontSize=16)
    chart = chart_of(rows).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash)
    return file_svg(chart.properties(width=WIDTH - 100, height=HEIGHT, title=title), label)
