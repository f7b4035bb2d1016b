"""The kill table as a page in Markdown: what each corruption was found by, and what may pass and why."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from seckill.consistency.page import machine

if TYPE_CHECKING:
    from seckill.consistency.selftest.running import Generated, Trial

COMMAND = "seckill report selftest --generate --write FILE"
SHOWN = 6
"""So many of the invariants that found something are named, the busiest first."""


def written(named: Sequence[Trial], made: Sequence[Generated], seed: int) -> str:
    possible = [trial for trial in named if trial.found is not None and not trial.is_off]
    found = sum(bool(each.killed_by) for each in made)
    lines = [
        "# What the consistency report finds", "",
        f"Written by `{COMMAND}` on a run that passes; run it again to compare. Each line spoils that run in one way,"
        " and says which invariants of [invariants.md](../invariants.md) do not hold any more.", "",
        f"* machine: {machine.described()}", f"* run: {time.strftime('%Y-%m-%d')}",
        f"* {len(possible)} corruptions with a name: {sum(trial.killed for trial in possible)} found",
        f"* {len(made)} generated mutations, seed {seed}: {found} found, {sum(bool(each.reason) for each in made)}"
        f" harmless for a reason, {sum(each.slipped for each in made)} slipped through", "",
        "## Corruptions with a name", "", "| meant for | corruption | says | and also |", "|---|---|---|---|",
        *map(_named, named), "",
        "## Mutations of every table, topic and log", "",
        "A row is deleted, doubled or put out of turn; a value is another row's, a stranger's, one more or less, an"
        " hour off, or exchanged with another row's. Of `stages` one fact of a purchase is told otherwise from some"
        " stage on, and all that follows agrees.", "",
        "| what | mutations | found | by | may pass, because |", "|---|---:|---:|---|---|", *_columns(made), "",
    ]  # fmt: skip
    return "\n".join(lines)


def _named(trial: Trial) -> str:
    says = "declared off" if trial.is_off else "nothing to spoil" if trial.found is None else trial.found.value
    return f"| {trial.corruption.invariant} | {trial.corruption.what} | {says} | {' '.join(trial.others)} |"


def _columns(made: Iterable[Generated]) -> list[str]:
    columns: dict[str, list[Generated]] = defaultdict(list)
    for each in made:
        columns[f"{each.mutation.field}.{each.mutation.column}".rstrip(".")].append(each)
    lines = []
    for column, several in columns.items():
        by = Counter(name for each in several for name in each.killed_by)
        shown = [name for name, _ in by.most_common(SHOWN)] + (["…"] if len(by) > SHOWN else [])
        found = sum(bool(each.killed_by) for each in several)
        why = "; ".join(dict.fromkeys(each.reason for each in several if each.reason))
        lines.append(f"| {column} | {len(several)} | {found} | {' '.join(shown)} | {why} |")
    return lines
