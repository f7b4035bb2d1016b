"""Shell: the statistics of one run as an HTML page with charts, as JSON, and as one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from markupsafe import Markup

from analytics.measures.buyers import SUSPECT_GAP_MS, SUSPECT_REQUESTS
from analytics.report import figures, pictures
from analytics.report.queries import BUYER_REQUESTS_MAX, RunStatistics
from analytics.schemas import DECISIONS
from seckill.report.html.rendering import render_template
from seckill.report.traffic import FunnelStage


def headline(statistics: RunStatistics) -> str:
    counts = dict(figures.purchase_funnel(statistics.totals))
    records = sum(row["records"] for row in statistics.partitions)
    waits = [each for each in figures.latencies(statistics.latency) if each.stage == "decision"]
    decided = f", decided within {waits[0].p99_ms:,.0f} ms (p99)" if waits else ""
    return (
        f"{counts[FunnelStage.REQUESTED]:,} requests, {counts[FunnelStage.RESERVED]:,} reserved, "
        f"{counts[FunnelStage.PAID]:,} paid{decided}; from {records:,} records"
    )


def render_page(statistics: RunStatistics) -> str:
    return render_template(
        "analytics.report",
        "statistics.html",
        statistics=statistics,
        headline=headline(statistics),
        charts=_charts(statistics),
        latencies=figures.latencies(statistics.latency),
        fairness=figures.fairness(statistics.fairness),
        buyers=_buyers(statistics.buyers),
        suspect_requests=SUSPECT_REQUESTS,
        suspect_gap_ms=SUSPECT_GAP_MS,
    )


def statistics_as_json(statistics: RunStatistics) -> dict[str, Any]:
    plain = asdict(statistics) | {"run": str(statistics.run)}
    plain["percentiles"] = [
        {name.replace("max_ms", "most_ms"): value for name, value in each._asdict().items()}
        for each in figures.latencies(statistics.latency)
    ]
    funnel = figures.purchase_funnel(statistics.totals)
    plain["funnel"] = [{"stage": stage.value, "purchases": count} for stage, count in funnel]
    plain["order_of_success"] = figures.fairness(statistics.fairness)._asdict()
    return plain


def _charts(statistics: RunStatistics) -> dict[str, Markup | None]:
    """A chart without data is None."""
    step_ms = statistics.step_ms
    decisions = [row for row in statistics.flow if row["kind"] in DECISIONS]
    return {
        "funnel": pictures.funnel(statistics.totals) if statistics.totals else None,
        "peak": pictures.peak(statistics.flow, step_ms) if statistics.flow else None,
        "backlog": pictures.backlog(statistics.flow, step_ms) if statistics.flow else None,
        "decisions": pictures.decisions(decisions, step_ms) if decisions else None,
        "sell_through": pictures.sell_through(statistics.sell_through, step_ms) if statistics.sell_through else None,
        "latency": pictures.latency(statistics.latency) if statistics.latency else None,
        "fairness": pictures.fairness(statistics.fairness) if statistics.fairness else None,
        "skus": pictures.skus(statistics.skus) if statistics.skus else None,
        "revenue": pictures.revenue(statistics.revenue) if statistics.revenue else None,
    }


def _buyers(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last row stands for that many requests or more."""
    return [
        row | {"requests": f"{row['requests']}{' or more' * (row['requests'] >= BUYER_REQUESTS_MAX)}"} for row in rows
    ]
