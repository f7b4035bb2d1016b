"""Codec: the kill table as Markdown: which invariants detect each corruption, and which mutations are harmless."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from seckill.report.html import hardware

if TYPE_CHECKING:
    from seckill.report.selftest.trials import MutationResult, Trial

COMMAND = "seckill report selftest --generate --write FILE"
SHOWN = 6
"""For each column this many invariants are named, those with most detections first."""


def render_kill_table(named: Sequence[Trial], made: Sequence[MutationResult], seed: int) -> str:
    possible = [trial for trial in named if trial.found is not None and not trial.is_off]
    found = sum(bool(each.detected_by) for each in made)
    lines = [
        "# What the consistency report detects", "",
        f"Written by `{COMMAND}` on a run that passes; run it again to compare. Each line corrupts that run in one way"
        " and names the invariants of [invariants.md](../invariants.md) that notice.", "",
        f"* machine: {hardware.describe_machine()}", f"* run: {time.strftime('%Y-%m-%d')}",
        f"* {len(possible)} named corruptions: {sum(trial.was_detected for trial in possible)} detected",
        f"* {len(made)} generated mutations, seed {seed}: {found} detected, {sum(bool(each.reason) for each in made)}"
        f" harmless, {sum(each.is_undetected for each in made)} undetected", "",
        "## Named corruptions", "", "| invariant | corruption | verdict | also noticed by |", "|---|---|---|---|",
        *map(_named, named), "",
        "## Mutations of every table, topic and log", "",
        "A row is deleted, duplicated or moved; a value is replaced by that of another row, by an unknown one, by one"
        " more or less or by one that is an hour off, or two values are exchanged. Under `stages` one fact of a"
        " purchase is changed consistently from one stage on.", "",
        "| column | mutations | detected | by | harmless, because |", "|---|---:|---:|---|---|", *_columns(made), "",
    ]  # fmt: skip
    return "\n".join(lines)


def _named(trial: Trial) -> str:
    verdict = "declared off" if trial.is_off else "not possible" if trial.found is None else trial.found.value
    return f"| {trial.corruption.invariant} | {trial.corruption.what} | {verdict} | {' '.join(trial.others)} |"


def _columns(made: Iterable[MutationResult]) -> list[str]:
    columns: dict[str, list[MutationResult]] = defaultdict(list)
    for each in made:
        columns[f"{each.mutation.field}.{each.mutation.column}".rstrip(".")].append(each)
    lines = []
    for column, several in columns.items():
        by = Counter(name for each in several for name in each.detected_by)
        shown = [name for name, _ in by.most_common(SHOWN)] + (["…"] if len(by) > SHOWN else [])
        found = sum(bool(each.detected_by) for each in several)
        why = "; ".join(dict.fromkeys(each.reason for each in several if each.reason))
        lines.append(f"| {column} | {len(several)} | {found} | {' '.join(shown)} | {why} |")
    return lines
