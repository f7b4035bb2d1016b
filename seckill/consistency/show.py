"""What a reader sees: a table on the terminal, with an example's timeline under each violation; or JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from seckill.consistency import timeline
from seckill.consistency.evidence import Evidence
from seckill.consistency.observed import disturbances, unplanned
from seckill.consistency.rows import SOURCES
from seckill.consistency.timeline import Moment
from seckill.consistency.verdicts import NOBODY, Judged, Subject, Verdict, Violation, overall

JSON_VERSION = 1
STYLES = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.UNKNOWN: "yellow",
    Verdict.NOT_RUN: "dim",
}
MOST_MOMENTS = 60
MOST_LISTED = 3


def as_table(console: Console, evidence: Evidence, judged: Sequence[Judged]) -> None:
    console.print(_sources(evidence))
    for disturbance in unplanned(evidence):
        console.print(f"{_clock(disturbance.at_ms)} {disturbance}", style="yellow", highlight=False)
    for reason in evidence.under_way:
        console.print(f"not drained: {reason}", style="yellow", highlight=False)
    console.print()
    table = Table("", "invariant", "verdict", "looked at", "what was found", box=None, pad_edge=False)
    for each in judged:
        verdict = f"[{STYLES[each.verdict]}]{each.verdict.value}[/]"
        table.add_row(each.invariant.name, each.invariant.title, verdict, f"{each.looked_at:,}", _said(each))
    console.print(table)
    for each in judged:
        _explain(console, evidence, each)
    total = overall(list(judged))
    console.print()
    console.print(f"[{STYLES[total]}]{total.value}[/]  {_counted(judged)}")


def _sources(evidence: Evidence) -> Table:
    table = Table("", "source", "read", "", box=None, pad_edge=False)
    for letter, source in evidence.sources.items():
        read = ", ".join(f"{name} {count:,}" for name, count in source.counts.items() if count)
        if letter in evidence.off:
            state = "[dim]declared off[/]"
        elif letter == "F" and not evidence.faults_planned:
            happened = len(disturbances(evidence))
            state = f"[dim]none planned[/], {happened} observed" if happened else "[dim]none planned[/]"
        elif source.faults:
            state = "[yellow]" + "; ".join(source.faults[:3]) + "[/]"
        else:
            state = "whole" if source.is_whole else "[yellow]empty[/]"
        table.add_row(letter, SOURCES[letter], read or "nothing", state)
    return table


def _said(each: Judged) -> str:
    if each.violations:
        return f"{len(each.violations):,} × {each.violations[0].text}"
    if each.reasons:
        return "; ".join(each.reasons[:2])
    return ", ".join(f"{name} {value}" for name, value in list(each.facts.items())[:3])


def _explain(console: Console, evidence: Evidence, each: Judged) -> None:
    if each.verdict not in (Verdict.FAIL, Verdict.UNKNOWN):
        return
    console.print()
    console.print(f"[{STYLES[each.verdict]}]{each.invariant.name}[/] {each.invariant.title}")
    for reason in each.reasons[:MOST_LISTED]:
        console.print(f"  {reason}", highlight=False)
    for violation in each.violations[:MOST_LISTED]:
        console.print(f"  {violation.text}  [dim]{violation.subject}[/]", highlight=False)
    if len(each.violations) > MOST_LISTED:
        console.print(f"  … and {len(each.violations) - MOST_LISTED:,} more", highlight=False)
    example = _example(each.violations)
    if example is not None:
        console.print(f"  the whole story of {example}:", style="dim", highlight=False)
        as_timeline(console, timeline.of(evidence, example))


def _example(violations: Sequence[Violation]) -> Subject | None:
    return next((violation.subject for violation in violations if violation.subject != NOBODY), None)


def as_timeline(console: Console, moments: Sequence[Moment]) -> None:
    table = Table("time", "where", "what", box=None, pad_edge=False, show_header=False)
    for moment in moments[:MOST_MOMENTS]:
        table.add_row(f"  {_clock(moment.at_ms)}", moment.where, moment.what)
    console.print(table)
    if not moments:
        console.print("  nothing is known of it", style="dim")
    if len(moments) > MOST_MOMENTS:
        console.print(f"  … and {len(moments) - MOST_MOMENTS} more", style="dim")


def as_json(evidence: Evidence, judged: Sequence[Judged]) -> dict[str, Any]:
    """Versioned; names are stable."""
    return {
        "version": JSON_VERSION,
        "taken_at_ms": evidence.taken_at_ms,
        "verdict": overall(list(judged)).value,
        "under_way": list(evidence.under_way),
        "sources": {
            letter: {
                "counts": source.counts,
                "faults": list(source.faults),
                "whole": source.is_whole,
                "off": letter in evidence.off,
            }
            for letter, source in evidence.sources.items()
        },
        "observed": [each._asdict() for each in disturbances(evidence)],
        "cut": [log._asdict() for log in evidence.logs],
        "invariants": [_invariant(evidence, each) for each in judged],
    }


def _invariant(evidence: Evidence, each: Judged) -> dict[str, Any]:
    example = _example(each.violations) if each.verdict is Verdict.FAIL else None
    return {
        "name": each.invariant.name,
        "title": each.invariant.title,
        "verdict": each.verdict.value,
        "looked_at": each.looked_at,
        "violations": len(each.violations),
        "examples": [{"text": text, "subject": _named(subject)} for text, subject in each.violations[:10]],
        "timeline": [moment._asdict() for moment in timeline.of(evidence, example)] if example else [],
        "reasons": list(each.reasons),
        "facts": each.facts,
    }


def _named(subject: Subject) -> dict[str, str]:
    return {name: str(value) for name, value in subject._asdict().items() if value is not None}


def _counted(judged: Sequence[Judged]) -> str:
    counts = {verdict: sum(each.verdict is verdict for each in judged) for verdict in Verdict}
    return ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)


def _clock(at_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(at_ms / 1000)) + f".{at_ms % 1000:03d}"
