"""Values: what the report says of an invariant, and on what it rests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from seckill.consistency.identity import Id

if TYPE_CHECKING:
    from seckill.consistency.evidence import Evidence


class Verdict(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"  # a source is missing, empty, cut off or not drained
    NOT_RUN = "NOT RUN"  # declared off by the manifest


EXIT_CODES = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.UNKNOWN: 2}
TOOL_FAILED = 3


class Subject(NamedTuple):
    """Whom a violation is about; its timeline is shown."""

    request_id: Id | None = None
    order_id: Id | None = None
    user_id: str | None = None

    def __str__(self) -> str:
        named = {"request": self.request_id, "order": self.order_id, "user": self.user_id}
        return ", ".join(f"{kind} {value}" for kind, value in named.items() if value is not None)


NOBODY = Subject()


class Violation(NamedTuple):
    text: str
    subject: Subject = NOBODY


@dataclass(slots=True)
class Found:
    """What a check finds while it looks.

    `wrong` is there for everybody to see; `missing` may still come as long as something is under way or a source is
    not whole; `unknown` cannot be told from this evidence.
    """

    looked_at: int = 0
    wrong: list[Violation] = field(default_factory=list)
    missing: list[Violation] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    facts: dict[str, int | float | str] = field(default_factory=dict)

    def say_wrong(self, text: str, subject: Subject = NOBODY) -> None:
        self.wrong.append(Violation(text, subject))

    def say_missing(self, text: str, subject: Subject = NOBODY) -> None:
        self.missing.append(Violation(text, subject))


@dataclass(frozen=True, slots=True)
class Invariant:
    """`needs`: the sources (evidence.SOURCES) that have to be whole."""

    name: str
    title: str
    needs: tuple[str, ...]
    check: Callable[[Evidence, Found], None]


@dataclass(frozen=True, slots=True)
class Judged:
    invariant: Invariant
    verdict: Verdict
    looked_at: int = 0
    violations: tuple[Violation, ...] = ()
    reasons: tuple[str, ...] = ()
    facts: dict[str, int | float | str] = field(default_factory=dict)


def overall(judged: list[Judged]) -> Verdict:
    """PASS needs every declared one; nothing judged at all is UNKNOWN."""
    verdicts = {each.verdict for each in judged} - {Verdict.NOT_RUN}
    if Verdict.FAIL in verdicts:
        return Verdict.FAIL
    return Verdict.PASS if verdicts == {Verdict.PASS} else Verdict.UNKNOWN
