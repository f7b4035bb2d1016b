"""Values: a case of a fault, and the table of all of them.

A case is a generator. What comes before its `yield` breaks something while a crowd buys; after it everything has been
worked off and the crowd has gone home, and it says what proves that the fault really happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seckill.faults.world import World

Acts = Iterator[None]
PAYMENT_TTL_S = 12
"""Short, so that orders of buyers who walk away end while somebody looks."""


@dataclass(frozen=True, slots=True)
class Rush:
    """The crowd that buys meanwhile, and what there is to buy."""

    units: int = 40
    buyers: int = 160
    over_s: float = 5.0
    words: tuple[str, ...] = ()  # more for `loadtest.rush`
    time_to_pay_s: int = PAYMENT_TTL_S
    stays: bool = False  # as long as something is being broken: then nobody else has to come


@dataclass(frozen=True, slots=True)
class Case:
    """`breaks` names the invariants of which at least these must not hold afterwards; none: the report says PASS."""

    number: str
    name: str
    title: str
    act: Callable[[World], Acts] | None
    rush: Rush = field(default_factory=Rush)
    breaks: tuple[str, ...] = ()
    late: bool = False  # done to the evidence, when the sale is over
    needs: str = ""  # what is not there, so that it cannot run

    @property
    def expected(self) -> str:
        return "✗ " + " ".join(self.breaks) if self.breaks else "PASS"

    @property
    def spoils(self) -> bool:
        """Nothing that comes after it on the same stack could be judged."""
        return bool(self.breaks) or self.late


CASES: dict[str, Case] = {}


def case(
    number: str,
    name: str,
    title: str,
    *,
    rush: Rush | None = None,
    breaks: tuple[str, ...] = (),
    late: bool = False,
) -> Callable[[Callable[[World], Acts]], Callable[[World], Acts]]:
    """Enter a case in the table."""

    def enter(act: Callable[[World], Acts]) -> Callable[[World], Acts]:
        _add(Case(number, name, title, act, rush or Rush(), breaks, late))
        return act

    return enter


def absent(number: str, name: str, title: str, needs: str) -> None:
    """A case that is known and cannot be run yet: it is listed with what it needs."""
    _add(Case(number, name, title, None, needs=needs))


def in_order() -> list[Case]:
    """As they are run: by number, and what spoils a stack at the end."""

    def rank(case: Case) -> tuple[bool, int, str]:
        digits = case.number.rstrip("abcdefghijklmnopqrstuvwxyz")
        return case.spoils, int(digits or 1000), case.number

    return sorted(CASES.values(), key=rank)


def _add(made: Case) -> None:
    assert made.name not in CASES, f"two cases named {made.name}"
    CASES[made.name] = made
