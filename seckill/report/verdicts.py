"""Values: the verdict on each invariant, and the findings that lead to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from seckill.report.evidence_sources import Source
from seckill.report.identity import Id

if TYPE_CHECKING:
    from seckill.report.evidence import Evidence


class Verdict(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"  # a source is missing, empty, cut off, or the run has not drained
    NOT_RUN = "NOT RUN"  # the manifest declares a needed source off


EXIT_CODES = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.UNKNOWN: 2}
TOOL_FAILED = 3


class Subject(NamedTuple):
    """The request, order or user that a violation is about. The report shows its timeline."""

    request_id: Id | None = None
    order_id: Id | None = None
    user_id: str | None = None

    def __str__(self) -> str:
        named = {"request": self.request_id, "order": self.order_id, "user": self.user_id}
        return ", ".join(f"{kind} {value}" for kind, value in named.items() if value is not None)


NO_SUBJECT = Subject()


class Violation(NamedTuple):
    text: str
    subject: Subject = NO_SUBJECT


@dataclass(slots=True)
class Findings:
    """What a check collects while it runs.

    `violations` are wrong whatever happens next. `missing` may still arrive while the run has not drained or a source
    is incomplete. `unknown` lists what this evidence cannot answer. `checked` counts the items that were compared.
    """

    checked: int = 0
    violations: list[Violation] = field(default_factory=list)
    missing: list[Violation] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    facts: dict[str, int | float | str] = field(default_factory=dict)

    def add_violation(self, text: str, subject: Subject = NO_SUBJECT) -> None:
        self.violations.append(Violation(text, subject))

    def add_missing(self, text: str, subject: Subject = NO_SUBJECT) -> None:
        self.missing.append(Violation(text, subject))


@dataclass(frozen=True, slots=True)
class Invariant:
    """`needs` lists the sources that must be complete before the check can pass or fail."""

    name: str
    title: str
    needs: tuple[Source, ...]
    check: Callable[[Evidence, Findings], None]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one invariant, with the reasons for it."""

    invariant: Invariant
    verdict: Verdict
    checked: int = 0
    violations: tuple[Violation, ...] = ()
    reasons: tuple[str, ...] = ()
    facts: dict[str, int | float | str] = field(default_factory=dict)

    @property
    def example(self) -> Subject | None:
        """The first violation that names a request, order or user."""
        return next((violation.subject for violation in self.violations if violation.subject != NO_SUBJECT), None)


def overall_verdict(judged: Sequence[Judgement]) -> Verdict:
    """PASS only if every invariant that ran passed. Without any that ran the verdict is UNKNOWN."""
    verdicts = {each.verdict for each in judged} - {Verdict.NOT_RUN}
    if Verdict.FAIL in verdicts:
        return Verdict.FAIL
    return Verdict.PASS if verdicts == {Verdict.PASS} else Verdict.UNKNOWN
