"""All corruptions against one good run, and the table of what each has killed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from seckill.consistency.evidence import Evidence
from seckill.consistency.invariants.judging import INVARIANTS, judge
from seckill.consistency.selftest import books, queues, refused, truths, world
from seckill.consistency.selftest.spoiling import CORRUPTIONS, Corruption, NoMaterial
from seckill.consistency.verdicts import EXIT_CODES, Verdict, overall

__all__ = ["CORRUPTIONS", "books", "queues", "refused", "truths", "world"]  # the latter are imported to be registered


class Trial(NamedTuple):
    """`found` None: this run has nothing that could be spoilt so; NOT RUN: it declares the source off."""

    corruption: Corruption
    found: Verdict | None
    total: Verdict | None
    others: tuple[str, ...] = ()

    @property
    def killed(self) -> bool:
        """The invariant meant has flipped, and with it the whole."""
        return self.found is self.corruption.expected and self.total is not Verdict.PASS

    @property
    def is_off(self) -> bool:
        return self.found is Verdict.NOT_RUN


def trials(evidence: Evidence) -> Iterator[Trial]:
    for corruption in CORRUPTIONS:
        needs = next(each.needs for each in INVARIANTS if each.name == corruption.invariant)
        if evidence.off.intersection(needs):
            yield Trial(corruption, Verdict.NOT_RUN, None)
            continue
        try:
            spoilt = corruption.spoil(evidence)
        except NoMaterial:
            yield Trial(corruption, None, None)
            continue
        judged = judge(spoilt)
        mine = next(each for each in judged if each.invariant.name == corruption.invariant)
        others = [
            each.invariant.name
            for each in judged
            if each is not mine and each.verdict in (Verdict.FAIL, Verdict.UNKNOWN)
        ]
        yield Trial(corruption, mine.verdict, overall(judged), tuple(others))


def run(console: Console, evidence: Evidence) -> int:
    """0: each was found; 1: one slipped through; 2: the run is not good, or lacks something to spoil."""
    before = overall(judge(evidence))
    if before is not Verdict.PASS:
        console.print(f"the selftest needs a run that is good; this one is {before.value}: see `seckill report`")
        return EXIT_CODES[Verdict.UNKNOWN]
    table = Table("", "corruption", "expected", "found", "and also", box=None, pad_edge=False)
    all_trials = list(trials(evidence))
    for trial in all_trials:
        style = "green" if trial.killed else "dim" if trial.is_off else "yellow" if trial.found is None else "bold red"
        found = "nothing to spoil" if trial.found is None else trial.found.value
        table.add_row(
            trial.corruption.invariant, trial.corruption.what, trial.corruption.expected.value,
            f"[{style}]{found}[/]", " ".join(trial.others),
        )  # fmt: skip
    console.print(table)
    killed = sum(trial.killed for trial in all_trials)
    lacking = sum(trial.found is None for trial in all_trials)
    off = sum(trial.is_off for trial in all_trials)
    slipped = len(all_trials) - killed - lacking - off
    console.print(
        f"\n{len(all_trials)} corruptions: {killed} found, {slipped} slipped through, {lacking} not possible, "
        f"{off} of sources that are declared off"
    )
    if slipped:
        return EXIT_CODES[Verdict.FAIL]
    return EXIT_CODES[Verdict.UNKNOWN if lacking else Verdict.PASS]
