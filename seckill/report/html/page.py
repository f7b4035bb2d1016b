"""Shell: the report as one HTML file: verdict, peak and funnel first, then invariants, more charts and the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from seckill.report.disturbances import find_unplanned
from seckill.report.evidence import Evidence
from seckill.report.evidence_timeline import timeline_of
from seckill.report.html import figures, hardware, pictures
from seckill.report.html.rendering import render_template
from seckill.report.verdicts import Judgement, Verdict, overall_verdict

EXAMPLES_MAX = 5
RUNS_MAX = 10


def render_report(evidence: Evidence, judged: Sequence[Judgement]) -> str:
    verdict = overall_verdict(judged)
    return render_template(
        "seckill.report.html",
        "report.html",
        verdict=verdict.value,
        verdict_style=_style(verdict),
        headline=headline(evidence, judged),
        unfinished=evidence.unfinished,
        charts=_charts(evidence),
        invariants=[_invariant(evidence, each) for each in judged],
        latencies=figures.stage_latencies(evidence),
        ledger=[(stock, figures.ledger_accounts(evidence, stock)) for stock in evidence.stocks],
        taken_at_ms=evidence.taken_at_ms,
        machine=hardware.describe_machine(),
        planned_faults=evidence.planned_faults,
        unplanned=find_unplanned(evidence),
        runs=evidence.runs[:RUNS_MAX],
        more_runs=max(0, len(evidence.runs) - RUNS_MAX),
        sources=_sources(evidence),
        cut=", ".join(f"{log.topic}-{log.partition}: {log.start}–{log.cut}" for log in evidence.partition_logs),
    )


def headline(evidence: Evidence, judged: Sequence[Judgement]) -> str:
    """One sentence with the numbers that matter."""
    run = [each for each in judged if each.verdict is not Verdict.NOT_RUN]
    passed = sum(each.verdict is Verdict.PASS for each in run)
    sold = sum(stock.sold for stock in evidence.stocks)
    oversold = sum(max(0, stock.reserved + stock.sold - _supplied(evidence, stock.id)) for stock in evidence.stocks)
    attempts, faults = len(evidence.attempts), len(evidence.injected_faults)
    return (
        f"{attempts:,} attempts, {_declared(evidence):,} units, {faults:,} faults: "
        f"{passed} of {len(run)} invariants hold, {sold:,} sold, {oversold:,} oversold"
    )


def _declared(evidence: Evidence) -> int:
    return sum(entry.units for entry in evidence.ledger if entry.kind == "declare")


def _supplied(evidence: Evidence, stock_id: int) -> int:
    entries = evidence.entries_by_stock.get(stock_id, ())
    return sum(entry.units * ((entry.debit == "supply") - (entry.credit == "supply")) for entry in entries)


def _charts(evidence: Evidence) -> dict[str, Markup | None]:
    """A chart without data is None, and the page leaves it out."""
    charts: dict[str, Markup | None] = dict.fromkeys(("peak", "latencies", "units", "fairness"))
    charts["funnel"] = pictures.funnel_chart(figures.purchase_funnel(evidence))
    curves = figures.peak_curves(evidence)
    if curves is None:
        return charts
    bands, sold_out_s = figures.fault_bands(evidence, curves), figures.sold_out_s(evidence, curves)
    charts["peak"] = pictures.peak_chart(curves, bands, sold_out_s)
    if latencies := figures.stage_latencies(evidence):
        charts["latencies"] = pictures.latency_chart(latencies)
    if levels := figures.unit_levels(evidence, curves.began_ms):
        charts["units"] = pictures.unit_chart(levels, _declared(evidence))
    if shares := figures.arrival_shares(evidence):
        charts["fairness"] = pictures.fairness_chart(shares)
    return charts


def _invariant(evidence: Evidence, each: Judgement) -> dict[str, Any]:
    facts = "; ".join(f"{name}: {value}" for name, value in each.facts.items())
    has_details = each.verdict in (Verdict.FAIL, Verdict.UNKNOWN)
    return {
        "name": each.invariant.name,
        "title": each.invariant.title,
        "contract": _contract(each),
        "verdict": each.verdict.value,
        "style": _style(each.verdict),
        "sources": " ".join(each.invariant.needs) or "all",
        "checked": each.checked,
        "violation_count": len(each.violations),
        "findings": each.violations[0].text if each.violations else "; ".join(each.reasons[:2]) or facts,
        "has_details": has_details,
        "reasons": each.reasons[:EXAMPLES_MAX],
        "violations": each.violations[:EXAMPLES_MAX],
        "example": each.example,
        "timeline": timeline_of(evidence, each.example) if has_details and each.example is not None else [],
    }


def _contract(each: Judgement) -> str:
    """The docstring of the check without its number."""
    words = " ".join((each.invariant.check.__doc__ or "").split())
    return words.partition(". ")[2]


def _sources(evidence: Evidence) -> list[dict[str, str]]:
    rows = []
    for source, status in evidence.sources.items():
        read = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in status.counts.items() if count)
        if source in evidence.declared_off:
            state = "declared off"
        else:
            state = "; ".join(status.faults) or ("complete" if read else "empty")
        rows.append({"letter": source.value, "description": source.description, "read": read, "state": state})
    return rows


def _style(verdict: Verdict) -> str:
    """The CSS class of a verdict."""
    return verdict.value.split()[0]
