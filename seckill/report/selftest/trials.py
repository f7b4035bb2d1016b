"""Shell: run all named corruptions and generated mutations against one good run, and show which were detected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

from seckill.report.evidence import Evidence
from seckill.report.invariants.registry import INVARIANTS, judge_invariants
from seckill.report.selftest import (  # the corrupt_… modules register their corruptions
    corrupt_facts,
    corrupt_observations,
    corrupt_refusals,
    corrupt_tables,
    corrupt_topics,
    harmless,
    kill_table,
)
from seckill.report.selftest.corruptions import CORRUPTIONS, Corruption, NothingToCorrupt
from seckill.report.selftest.mutations import Mutation, mutations
from seckill.report.verdicts import EXIT_CODES, Judgement, Verdict, overall_verdict

__all__ = [
    "CORRUPTIONS",
    "corrupt_facts",
    "corrupt_observations",
    "corrupt_refusals",
    "corrupt_tables",
    "corrupt_topics",
]


class Trial(NamedTuple):
    """`found` is None if this run has nothing to corrupt in this way, and NOT RUN if it declares the source off."""

    corruption: Corruption
    found: Verdict | None
    total: Verdict | None
    others: tuple[str, ...] = ()

    @property
    def was_detected(self) -> bool:
        """Whether the invariant in question has the expected verdict and the run no longer passes."""
        return self.found is self.corruption.expected and self.total is not Verdict.PASS

    @property
    def is_off(self) -> bool:
        return self.found is Verdict.NOT_RUN


class MutationResult(NamedTuple):
    """A mutation, the invariants that noticed it, and the reason why it may go undetected if it is harmless."""

    mutation: Mutation
    detected_by: tuple[str, ...]
    reason: str

    @property
    def is_undetected(self) -> bool:
        return not self.detected_by and not self.reason


def run_trials(evidence: Evidence) -> Iterator[Trial]:
    for corruption in CORRUPTIONS:
        needs = next(each.needs for each in INVARIANTS if each.name == corruption.invariant)
        if evidence.declared_off.intersection(needs):
            yield Trial(corruption, Verdict.NOT_RUN, None)
            continue
        try:
            judged = judge_invariants(corruption.apply(evidence))
        except NothingToCorrupt:
            yield Trial(corruption, None, None)
            continue
        mine = next(each for each in judged if each.invariant.name == corruption.invariant)
        others = tuple(name for name in _broken(judged) if name != corruption.invariant)
        yield Trial(corruption, mine.verdict, overall_verdict(judged), others)


def run_mutations(evidence: Evidence, seed: int) -> Iterator[MutationResult]:
    for mutation in mutations(evidence, seed):
        killed_by = _broken(judge_invariants(mutation.evidence))
        yield MutationResult(
            mutation._replace(evidence=evidence), killed_by, "" if killed_by else harmless.harmless_reason(mutation)
        )


def _broken(judged: Iterable[Judgement]) -> tuple[str, ...]:
    return tuple(each.invariant.name for each in judged if each.verdict in (Verdict.FAIL, Verdict.UNKNOWN))


def run_selftest(
    console: Console, evidence: Evidence, *, generate: bool = False, seed: int = 1, write: Path | None = None
) -> int:
    """Returns 0 if all were detected, 1 if one was not, 2 if the run does not pass or lacks rows to corrupt."""
    judged = judge_invariants(evidence)
    if overall_verdict(judged) is not Verdict.PASS:
        _print_failures(console, judged)
        return EXIT_CODES[Verdict.UNKNOWN]
    named = list(run_trials(evidence))
    console.print(_table(named))
    killed = sum(trial.was_detected for trial in named)
    lacking = sum(trial.found is None for trial in named)
    off = sum(trial.is_off for trial in named)
    slipped = len(named) - killed - lacking - off
    console.print(
        f"\n{len(named)} corruptions: {killed} detected, {slipped} undetected, {lacking} not possible, "
        f"{off} for sources that are declared off"
    )
    made: list[MutationResult] = []
    if generate:
        made = list(track(run_mutations(evidence, seed), "mutating", console=console, transient=True))
        slipped += _print_mutations(console, made, seed)
    if write is not None:
        write.write_text(kill_table.render_kill_table(named, made, seed), encoding="utf-8")
    if slipped:
        return EXIT_CODES[Verdict.FAIL]
    return EXIT_CODES[Verdict.UNKNOWN if lacking else Verdict.PASS]


def _print_failures(console: Console, judged: list[Judgement]) -> None:
    console.print(f"the selftest needs a run that passes; this one is {overall_verdict(judged).value}:")
    for each in judged:
        if each.verdict in (Verdict.FAIL, Verdict.UNKNOWN):
            summary = each.violations[0].text if each.violations else "; ".join(each.reasons[:1])
            console.print(f"  {each.invariant.name} {each.verdict.value}: {summary}", highlight=False)
    console.print("`seckill report` shows the details; --data selects the folder of another stack")


def _table(named: Iterable[Trial]) -> Table:
    table = Table("", "corruption", "expected", "found", "and also", box=None, pad_edge=False)
    for trial in named:
        style = (
            "green"
            if trial.was_detected
            else "dim"
            if trial.is_off
            else "yellow"
            if trial.found is None
            else "bold red"
        )
        found = "not possible" if trial.found is None else trial.found.value
        table.add_row(
            trial.corruption.invariant, trial.corruption.what, trial.corruption.expected.value,
            f"[{style}]{found}[/]", " ".join(trial.others),
        )  # fmt: skip
    return table


def _print_mutations(console: Console, made: list[MutationResult], seed: int) -> int:
    """Print every undetected mutation and the totals; returns the number of undetected ones."""
    slipped = [each.mutation.what for each in made if each.is_undetected]
    found = sum(bool(each.detected_by) for each in made)
    for what in slipped:
        console.print(f"undetected: {what}", style="bold red", highlight=False)
    console.print(
        f"{len(made)} mutations with seed {seed}: {found} detected, {len(made) - found - len(slipped)} harmless, "
        f"{len(slipped)} undetected"
    )
    return len(slipped)
