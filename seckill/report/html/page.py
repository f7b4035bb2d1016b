"""Shell: the report as one HTML file: verdict, peak and funnel first, then invariants, more charts and the evidence."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from seckill.report.evidence import Evidence
from seckill.report.evidence_timeline import timeline_of
from seckill.report.html import figures, hardware, pictures
from seckill.report.html.figures import FaultRow
from seckill.report.html.meanings import MEANINGS
from seckill.report.html.rendering import render_template
from seckill.report.terminal import verdict_sentence
from seckill.report.verdicts import Judgement, Verdict, overall_verdict

ROOT = Path(__file__).parents[3]
EXAMPLES_MAX = 5
RUNS_MAX = 10
FAULTS_MAX = 12
ORDER = (Verdict.FAIL, Verdict.UNKNOWN, Verdict.PASS, Verdict.NOT_RUN)


class CodeLink(NamedTuple):
    """`href` is empty if the page does not lie in a folder from which the code can be reached."""

    text: str
    href: str


def render_report(evidence: Evidence, judged: Sequence[Judgement], folder: Path | None = None) -> str:
    """`folder` is where the page will lie; its links to the code are relative to it."""
    verdict = overall_verdict(judged)
    faults = figures.fault_rows(evidence)
    return render_template(
        "seckill.report.html",
        "report.html",
        verdict=verdict.value,
        verdict_style=_style(verdict),
        headline=headline(evidence, judged),
        sentence=verdict_sentence(evidence, judged),
        unfinished=evidence.unfinished,
        charts=_charts(evidence, faults),
        faults=faults[:FAULTS_MAX],
        more_faults=faults[FAULTS_MAX:],
        invariants=[_invariant(evidence, each, folder) for each in sorted(judged, key=_urgency)],
        latencies=figures.stage_latencies(evidence),
        ledger=[(stock, figures.ledger_accounts(evidence, stock)) for stock in evidence.stocks],
        taken_at_ms=evidence.taken_at_ms,
        machine=hardware.describe_machine(),
        planned_faults=evidence.planned_faults,
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
    observed = sum(not each.is_planned for each in figures.fault_rows(evidence))
    faults = [_counted(len(evidence.injected_faults), "fault")] if evidence.injected_faults or not observed else []
    faults += [_counted(observed, "observed disturbance")] if observed else []
    return (
        f"{_counted(len(evidence.attempts), 'attempt')}, {_counted(_declared(evidence), 'unit')}, {', '.join(faults)}: "
        f"{passed} of {len(run)} invariants hold, {sold:,} sold, {oversold:,} oversold"
    )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _urgency(each: Judgement) -> int:
    return ORDER.index(each.verdict)


def _declared(evidence: Evidence) -> int:
    return sum(entry.units for entry in evidence.ledger if entry.kind == "declare")


def _supplied(evidence: Evidence, stock_id: int) -> int:
    entries = evidence.entries_by_stock.get(stock_id, ())
    return sum(entry.units * ((entry.debit == "supply") - (entry.credit == "supply")) for entry in entries)


def _charts(evidence: Evidence, faults: Sequence[FaultRow]) -> dict[str, Markup | None]:
    """A chart without data is None, and the page leaves it out."""
    charts: dict[str, Markup | None] = dict.fromkeys(("peak", "latencies", "units", "fairness"))
    charts["funnel"] = pictures.funnel_chart(figures.purchase_funnel(evidence))
    curves = figures.peak_curves(evidence)
    if curves is None:
        return charts
    bands, sold_out_s = figures.fault_bands(faults, curves), figures.sold_out_s(evidence, curves)
    charts["peak"] = pictures.peak_chart(curves, bands, sold_out_s)
    if latencies := figures.stage_latencies(evidence):
        charts["latencies"] = pictures.latency_chart(latencies)
    if levels := figures.unit_levels(evidence, curves.began_ms):
        charts["units"] = pictures.unit_chart(levels, _declared(evidence))
    if shares := figures.arrival_shares(evidence):
        charts["fairness"] = pictures.fairness_chart(shares)
    return charts


def _invariant(evidence: Evidence, each: Judgement, folder: Path | None) -> dict[str, Any]:
    is_open = each.verdict in (Verdict.FAIL, Verdict.UNKNOWN)
    return {
        "name": each.invariant.name,
        "title": each.invariant.title,
        "meaning": MEANINGS[each.invariant.name],
        "contract": _contract(each),
        "verdict": each.verdict.value,
        "style": _style(each.verdict),
        "is_open": is_open,
        "sources": [f"{source.value}: {source.description}" for source in each.invariant.needs],
        "code": code_link(each, folder),
        "checked": each.checked,
        "violation_count": len(each.violations),
        "facts": each.facts,
        "reasons": each.reasons[:EXAMPLES_MAX],
        "violations": each.violations[:EXAMPLES_MAX],
        "example": each.example,
        "timeline": timeline_of(evidence, each.example) if is_open and each.example is not None else [],
    }


def code_link(each: Judgement, folder: Path | None) -> CodeLink:
    """The check's file and line."""
    path = Path(inspect.getsourcefile(each.invariant.check) or "")
    line = inspect.getsourcelines(each.invariant.check)[1]
    href = "" if folder is None else os.path.relpath(path, folder)
    return CodeLink(f"{path.relative_to(ROOT)}:{line}", href)


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
