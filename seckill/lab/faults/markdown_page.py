"""Shell: write the results of a run as Markdown and JSON that are kept with the code."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from seckill.lab.faults.results import CaseResult
from seckill.report.html import hardware

INVARIANT_COLUMNS = ("", "invariant", "verdict", "checked", "findings")
CASE_COLUMNS = ("", "case", "expected", "report", "", "recovered after", "judged with")


def write_faults_page(rows: Sequence[CaseResult], folder: Path, stem: Path, command: str, scale: float) -> None:
    """Writes STEM.md and STEM.json. `folder` holds the reports of this run; `command` repeats it."""
    judged = {row.name: _invariants(row, folder) if _owns_report(row) else [] for row in rows}
    about = {
        "command": command,
        "scale": scale,
        "machine": hardware.describe_machine(),
        "run": time.strftime("%Y-%m-%d"),
    }
    cases = [asdict(row) | {"invariants": judged[row.name]} for row in rows]
    stem.with_suffix(".json").write_text(json.dumps({"about": about, "cases": cases}, indent=1) + "\n")
    lines = [
        "# Faults, and what the report said about them", "",
        f"Written by `{command}`; run it again to compare. Each fault hit a running stack while a crowd was buying. The"
        " crowd, the payment provider and the sinks were left alone, because the report relies on their logs.", "",
        f"* machine: {about['machine']}", f"* run: {about['run']}, scale {scale:g}", "",
        "| " + " | ".join(CASE_COLUMNS) + " |", "|" + "---|" * len(CASE_COLUMNS), *(_overview(row) for row in rows), "",
        *(line for row in rows for line in _case(row, judged[row.name])),
    ]  # fmt: skip
    stem.with_suffix(".md").write_text("\n".join(lines), encoding="utf-8")


def _owns_report(row: CaseResult) -> bool:
    """Several cases may share a report. It is named after the last of them and shown there."""
    return Path(row.report).stem == row.name


def _overview(row: CaseResult) -> str:
    recovered = f"{row.recovery_ms / 1000:.1f} s" if row.recovery_ms > 0 else ""
    others = "" if _owns_report(row) or not row.report else Path(row.report).stem
    return "| " + " | ".join((row.number, row.name, row.expected, row.verdict, _outcome(row), recovered, others)) + " |"


def _outcome(row: CaseResult) -> str:
    return _text(row.why) if row.verdict == "NOT RUN" or not row.behaved else "as expected"


def _case(row: CaseResult, invariants: Sequence[dict[str, Any]]) -> list[str]:
    facts = {
        **row.power,
        "in flight when the fault began": row.in_flight,
        "attempts by all buyers": row.attempts,
        "deliveries beyond the first": row.again,
        "recovery time, s": round(row.recovery_ms / 1000, 1),
        "seconds, report included": row.took_s,
    }
    facts = {
        name: value for name, value in facts.items() if not isinstance(value, float) or value > 0
    }  # negative means unknown
    lines = [f"## {row.name}: {row.verdict}, {_outcome(row)}", "", f"{row.title[:1].upper()}{row.title[1:]}.", ""]
    if row.verdict != "NOT RUN":
        lines += ["| | |", "|---|---|", *(f"| {name} | {_text(value)} |" for name, value in facts.items()), ""]
    if invariants:
        lines += ["| " + " | ".join(INVARIANT_COLUMNS) + " |", "|---|---|---|---:|---|", *map(_line, invariants), ""]
    return lines


def _invariants(row: CaseResult, folder: Path) -> list[dict[str, Any]]:
    path = (folder / row.report).with_suffix(".json")
    if not row.report or not path.exists():
        return []
    wanted = ("name", "title", "verdict", "looked_at", "violations", "facts", "reasons", "examples")
    return [{name: each[name] for name in wanted} for each in json.loads(path.read_text())["invariants"]]


def _line(each: dict[str, Any]) -> str:
    texts = [example["text"] for example in each["examples"][:1]] + each["reasons"][:2]
    findings = "; ".join(texts or [f"{name} {_text(value)}" for name, value in list(each["facts"].items())[:3]])
    cells = (each["name"], each["title"], each["verdict"], f"{each['looked_at']:,}", findings)
    return "| " + " | ".join(map(_text, cells)) + " |"


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value).replace("|", "/")
