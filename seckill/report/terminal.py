"""Shell: print the report as a table, with the timeline of an example below each violation, or write it as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from seckill.report.disturbances import find_disturbances, find_unplanned
from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source
from seckill.report.evidence_timeline import timeline_of
from seckill.report.timeline import TimelineStep, clock_text
from seckill.report.verdicts import Judgement, Subject, Verdict, overall_verdict

JSON_VERSION = 1
STYLES = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.UNKNOWN: "yellow",
    Verdict.NOT_RUN: "dim",
}
STEPS_MAX = 60
EXAMPLES_MAX = 3


def print_report(console: Console, evidence: Evidence, judged: Sequence[Judgement]) -> None:
    console.print(_source_table(evidence))
    for disturbance in find_unplanned(evidence):
        console.print(f"{clock_text(disturbance.at_ms)} {disturbance}", style="yellow", highlight=False)
    for reason in evidence.unfinished:
        console.print(f"not drained: {reason}", style="yellow", highlight=False)
    console.print()
    table = Table("", "invariant", "verdict", "checked", "findings", box=None, pad_edge=False)
    for each in judged:
        verdict = f"[{STYLES[each.verdict]}]{each.verdict.value}[/]"
        table.add_row(each.invariant.name, each.invariant.title, verdict, f"{each.checked:,}", _summary(each))
    console.print(table)
    for each in judged:
        if each.verdict in (Verdict.FAIL, Verdict.UNKNOWN):
            _print_details(console, evidence, each)
    total = overall_verdict(judged)
    console.print()
    console.print(f"[{STYLES[total]}]{total.value}[/]  {verdict_sentence(evidence, judged)}")


def verdict_sentence(evidence: Evidence, judged: Sequence[Judgement]) -> str:
    counts = {verdict: sum(each.verdict is verdict for each in judged) for verdict in Verdict}
    off = f"; {counts[Verdict.NOT_RUN]} not run" if counts[Verdict.NOT_RUN] else ""
    ran = len(judged) - counts[Verdict.NOT_RUN]
    match overall_verdict(judged):
        case Verdict.PASS:
            return f"All {ran} invariants hold{off}."
        case Verdict.FAIL:
            unknown = f", {_are(counts[Verdict.UNKNOWN])} unknown" if counts[Verdict.UNKNOWN] else ""
            return f"{_are(counts[Verdict.FAIL], f' of {ran} invariants')} violated{unknown}{off}."
        case _:
            reason = " because work is still in flight" if evidence.unfinished else ""
            return f"{_are(counts[Verdict.UNKNOWN], f' of {ran} invariants')} unknown{reason}; none is violated{off}."


def _are(number: int, of: str = "") -> str:
    return f"{number}{of} {'is' if number == 1 else 'are'}"


def _source_table(evidence: Evidence) -> Table:
    table = Table("", "source", "read", "", box=None, pad_edge=False)
    for source, status in evidence.sources.items():
        read = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in status.counts.items() if count)
        if source in evidence.declared_off:
            state = "[dim]declared off[/]"
        elif source is Source.FAULTS and not evidence.planned_faults:
            observed = len(find_disturbances(evidence))
            state = "[dim]none planned[/]" + (f", {observed} observed" if observed else "")
        elif status.faults:
            state = "[yellow]" + "; ".join(status.faults[:3]) + "[/]"
        else:
            state = "complete" if status.is_complete else "[yellow]empty[/]"
        table.add_row(source.value, source.description, read or "nothing", state)
    return table


def _summary(each: Judgement) -> str:
    if each.violations:
        return f"{len(each.violations):,} × {each.violations[0].text}"
    if each.reasons:
        return "; ".join(each.reasons[:2])
    return ", ".join(f"{name} {value}" for name, value in list(each.facts.items())[:3])


def _print_details(console: Console, evidence: Evidence, each: Judgement) -> None:
    console.print()
    console.print(f"[{STYLES[each.verdict]}]{each.invariant.name}[/] {each.invariant.title}")
    for reason in each.reasons[:EXAMPLES_MAX]:
        console.print(f"  {reason}", highlight=False)
    for violation in each.violations[:EXAMPLES_MAX]:
        console.print(f"  {violation.text}  [dim]{violation.subject}[/]", highlight=False)
    if len(each.violations) > EXAMPLES_MAX:
        console.print(f"  … and {len(each.violations) - EXAMPLES_MAX:,} more", highlight=False)
    if each.example is not None:
        console.print(f"  timeline of {each.example}:", style="dim", highlight=False)
        print_timeline(console, timeline_of(evidence, each.example))


def print_timeline(console: Console, steps: Sequence[TimelineStep]) -> None:
    table = Table("time", "where", "what", box=None, pad_edge=False, show_header=False)
    for step in steps[:STEPS_MAX]:
        table.add_row(f"  {clock_text(step.at_ms)}", step.where, step.what)
    console.print(table)
    if not steps:
        console.print("  no source mentions it", style="dim")
    if len(steps) > STEPS_MAX:
        console.print(f"  … and {len(steps) - STEPS_MAX} more", style="dim")


def report_as_json(evidence: Evidence, judged: Sequence[Judgement]) -> dict[str, Any]:
    """The keys are stable; `version` changes if they ever do."""
    return {
        "version": JSON_VERSION,
        "taken_at_ms": evidence.taken_at_ms,
        "verdict": overall_verdict(judged).value,
        "under_way": list(evidence.unfinished),
        "sources": {
            source.value: {
                "counts": status.counts,
                "faults": list(status.faults),
                "whole": status.is_complete,
                "off": source in evidence.declared_off,
            }
            for source, status in evidence.sources.items()
        },
        "observed": [each._asdict() for each in find_disturbances(evidence)],
        "cut": [log._asdict() for log in evidence.partition_logs],
        "invariants": [_invariant_as_json(evidence, each) for each in judged],
    }


def _invariant_as_json(evidence: Evidence, each: Judgement) -> dict[str, Any]:
    example = each.example if each.verdict is Verdict.FAIL else None
    return {
        "name": each.invariant.name,
        "title": each.invariant.title,
        "verdict": each.verdict.value,
        "looked_at": each.checked,
        "violations": len(each.violations),
        "examples": [{"text": text, "subject": _named(subject)} for text, subject in each.violations[:10]],
        "timeline": [_step_as_json(step) for step in timeline_of(evidence, example)] if example else [],
        "reasons": list(each.reasons),
        "facts": each.facts,
    }


def _step_as_json(step: TimelineStep) -> dict[str, Any]:
    return {"at_ms": step.at_ms, "rank": int(step.rank), "where": step.where, "what": step.what}


def _named(subject: Subject) -> dict[str, str]:
    return {name: str(value) for name, value in subject._asdict().items() if value is not None}
