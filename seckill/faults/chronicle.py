"""The results as a page in Markdown and as JSON, to be kept with the code: what was done, what each invariant said."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from seckill.consistency.page import machine
from seckill.faults.running import Row

HEAD = ("", "invariant", "verdict", "looked at", "what was found")
ALL = ("", "case", "must say", "says", "", "recovered after", "judged with")


def write(rows: Sequence[Row], folder: Path, stem: Path, words: str, scale: float) -> None:
    """STEM.md and STEM.json. `folder` has the reports of this run, `words` are those with which it is run again."""
    said = {row.name: _invariants(row, folder) if _judges(row) else [] for row in rows}
    about = {"command": words, "scale": scale, "machine": machine.described(), "run": time.strftime("%Y-%m-%d")}
    cases = [asdict(row) | {"invariants": said[row.name]} for row in rows]
    stem.with_suffix(".json").write_text(json.dumps({"about": about, "cases": cases}, indent=1) + "\n")
    lines = [
        "# Faults, and what the report said of them", "",
        f"Written by `{words}`; run it again to compare. Each happened to a stack of its own processes while a crowd"
        " bought; crowd, payment provider and sinks were spared, and their logs are what the report believes.", "",
        f"* machine: {about['machine']}", f"* run: {about['run']}, scale {scale:g}", "",
        "| " + " | ".join(ALL) + " |", "|" + "---|" * len(ALL), *(_overview(row) for row in rows), "",
        *(line for row in rows for line in _case(row, said[row.name])),
    ]  # fmt: skip
    stem.with_suffix(".md").write_text("\n".join(lines), encoding="utf-8")


def _judges(row: Row) -> bool:
    """A report that several share is named after the last of them, and shown there."""
    return Path(row.report).stem == row.name


def _overview(row: Row) -> str:
    recovered = f"{row.recovery_ms / 1000:.1f} s" if row.recovery_ms > 0 else ""
    others = "" if _judges(row) or not row.report else Path(row.report).stem
    return "| " + " | ".join((row.number, row.name, row.expected, row.verdict, _marked(row), recovered, others)) + " |"


def _marked(row: Row) -> str:
    return _text(row.why) if row.verdict == "NOT RUN" or not row.behaved else "as marked"


def _case(row: Row, invariants: Sequence[dict[str, Any]]) -> list[str]:
    facts = {
        **row.power,
        "in flight when it began": row.in_flight,
        "attempts of all buyers": row.attempts,
        "delivered beyond the first time": row.again,
        "recovered, from the first blow, s": round(row.recovery_ms / 1000, 1),
        "took, with the report, s": row.took_s,
    }
    facts = {name: value for name, value in facts.items() if not isinstance(value, float) or value > 0}  # else unknown
    lines = [f"## {row.name}: {row.verdict}, {_marked(row)}", "", f"{row.title[:1].upper()}{row.title[1:]}.", ""]
    if row.verdict != "NOT RUN":
        lines += ["| | |", "|---|---|", *(f"| {name} | {_text(value)} |" for name, value in facts.items()), ""]
    if invariants:
        lines += ["| " + " | ".join(HEAD) + " |", "|---|---|---|---:|---|", *map(_line, invariants), ""]
    return lines


def _invariants(row: Row, folder: Path) -> list[dict[str, Any]]:
    path = (folder / row.report).with_suffix(".json")
    if not row.report or not path.exists():
        return []
    wanted = ("name", "title", "verdict", "looked_at", "violations", "facts", "reasons", "examples")
    return [{name: each[name] for name in wanted} for each in json.loads(path.read_text())["invariants"]]


def _line(each: dict[str, Any]) -> str:
    said = [example["text"] for example in each["examples"][:1]] + each["reasons"][:2]
    found = "; ".join(said or [f"{name} {_text(value)}" for name, value in list(each["facts"].items())[:3]])
    cells = (each["name"], each["title"], each["verdict"], f"{each['looked_at']:,}", found)
    return "| " + " | ".join(map(_text, cells)) + " |"


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value).replace("|", "/")
