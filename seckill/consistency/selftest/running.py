"""All corruptions against one good run: those with a name and those that are generated, and what each has killed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

from seckill.consistency.evidence import Evidence
from seckill.consistency.invariants.judging import INVARIANTS, judge
from seckill.consistency.selftest import books, harmless, page, queues, refused, truths, world
from seckill.consistency.selftest.generating import Mutation, mutations
from seckill.consistency.selftest.spoiling import CORRUPTIONS, Corruption, NoMaterial
from seckill.consistency.verdicts import EXIT_CODES, Judged, Verdict, overall

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


class Generated(NamedTuple):
    """A mutation, and the invariants that do not hold any more; `reason`: why it may slip through, if it may."""

    mutation: Mutation
    killed_by: tuple[str, ...]
    reason: str

    @property
    def slipped(self) -> bool:
        return not self.killed_by and not self.reason


def trials(evidence: Evidence) -> Iterator[Trial]:
    for corruption in CORRUPTIONS:
        needs = next(each.needs for each in INVARIANTS if each.name == corruption.invariant)
        if evidence.off.intersection(needs):
            yield Trial(corruption, Verdict.NOT_RUN, None)
            continue
        try:
            judged = judge(corruption.spoil(evidence))
        except NoMaterial:
            yield Trial(corruption, None, None)
            continue
        mine = next(each for each in judged if each.invariant.name == corruption.invariant)
        others = tuple(name for name in _broken(judged) if name != corruption.invariant)
        yield Trial(corruption, mine.verdict, overall(judged), others)


def generated(evidence: Evidence, seed: int) -> Iterator[Generated]:
    for mutation in mutations(evidence, seed):
        killed_by = _broken(judge(mutation.evidence))
        yield Generated(mutation._replace(evidence=evidence), killed_by, "" if killed_by else harmless.reason(mutation))


def _broken(judged: Iterable[Judged]) -> tuple[str, ...]:
    return tuple(each.invariant.name for each in judged if each.verdict in (Verdict.FAIL, Verdict.UNKNOWN))


def run(
    console: Console, evidence: Evidence, *, generate: bool = False, seed: int = 1, write: Path | None = None
) -> int:
    """0: each was found; 1: one slipped through; 2: the run is not good, or lacks something to spoil."""
    judged = judge(evidence)
    if overall(judged) is not Verdict.PASS:
        _explain(console, judged)
        return EXIT_CODES[Verdict.UNKNOWN]
    named = list(trials(evidence))
    console.print(_table(named))
    killed = sum(trial.killed for trial in named)
    lacking = sum(trial.found is None for trial in named)
    off = sum(trial.is_off for trial in named)
    slipped = len(named) - killed - lacking - off
    console.print(
        f"\n{len(named)} corruptions: {killed} found, {slipped} slipped through, {lacking} not possible, "
        f"{off} of sources that are declared off"
    )
    made: list[Generated] = []
    if generate:
        made = list(track(generated(evidence, seed), "mutating", console=console, transient=True))
        slipped += _tell(console, made, seed)
    if write is not None:
        write.write_text(page.written(named, made, seed), encoding="utf-8")
    if slipped:
        return EXIT_CODES[Verdict.FAIL]
    return EXIT_CODES[Verdict.UNKNOWN if lacking else Verdict.PASS]


def _explain(console: Console, judged: list[Judged]) -> None:
    console.print(f"the selftest needs a run that is good; this one is {overall(judged).value}:")
    for each in judged:
        if each.verdict in (Verdict.FAIL, Verdict.UNKNOWN):
            said = each.violations[0].text if each.violations else "; ".join(each.reasons[:1])
            console.print(f"  {each.invariant.name} {each.verdict.value}: {said}", highlight=False)
    console.print("`seckill report` tells the whole of it; --data names the folder of another stack")


def _table(named: Iterable[Trial]) -> Table:
    table = Table("", "corruption", "expected", "found", "and also", box=None, pad_edge=False)
    for trial in named:
        style = "green" if trial.killed else "dim" if trial.is_off else "yellow" if trial.found is None else "bold red"
        found = "nothing to spoil" if trial.found is None else trial.found.value
        table.add_row(
            trial.corruption.invariant, trial.corruption.what, trial.corruption.expected.value,
            f"[{style}]{found}[/]", " ".join(trial.others),
        )  # fmt: skip
    return table


def _tell(console: Console, made: list[Generated], seed: int) -> int:
    """How many have slipped through without a reason; each is named."""
    slipped = [each.mutation.what for each in made if each.slipped]
    found = sum(bool(each.killed_by) for each in made)
    for what in slipped:
        console.print(f"slipped through: {what}", style="bold red", highlight=False)
    console.print(
        f"{len(made)} mutations with seed {seed}: {found} found, {len(made) - found - len(slipped)} harmless for a "
        f"reason, {len(slipped)} slipped through"
    )
    return len(slipped)
