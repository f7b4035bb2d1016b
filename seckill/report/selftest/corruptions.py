"""The register of corruptions, and the small tools they are made with. All work on copies of the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid5

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id, identity
from seckill.consistency.verdicts import Verdict

Row = TypeVar("Row")
Spoil = Callable[[Evidence], Evidence]
SPACE = UUID("5e1f7e57-0000-4000-8000-000000000000")


class NoMaterial(Exception):
    """The run has nothing that could be spoilt in this way."""


class Corruption(NamedTuple):
    invariant: str
    what: str
    expected: Verdict
    spoil: Spoil


CORRUPTIONS: list[Corruption] = []


def corruption(invariant: str, what: str, expected: Verdict = Verdict.FAIL) -> Callable[[Spoil], Spoil]:
    def register(spoil: Spoil) -> Spoil:
        CORRUPTIONS.append(Corruption(invariant, what, expected, spoil))
        return spoil

    return register


def first(rows: Iterable[Row], fits: Callable[[Row], bool] = lambda row: True) -> Row:
    for row in rows:
        if fits(row):
            return row
    raise NoMaterial


def last(rows: Sequence[Row], fits: Callable[[Row], bool] = lambda row: True) -> Row:
    return first(reversed(rows), fits)


def without(rows: Sequence[Row], gone: Row) -> list[Row]:
    """One of it less."""
    at = rows.index(gone)
    return [*rows[:at], *rows[at + 1 :]]


def instead(rows: Sequence[Row], old: Row, new: Row) -> list[Row]:
    at = rows.index(old)
    return [*rows[:at], new, *rows[at + 1 :]]


def changed(rows: Sequence[Row], fits: Callable[[Row], bool], **fields: object) -> list[Row]:
    """All that fit, with these fields."""
    return [_replaced(row, fields) if fits(row) else row for row in rows]


def _replaced(row: Any, fields: dict[str, object]) -> Any:
    return row._replace(**fields)


def kept(rows: list[Row], fits: Callable[[Row], bool]) -> list[Row]:
    return [row for row in rows if not fits(row)]


def stranger(number: int = 1) -> Id:
    """An identity that no run has."""
    return identity(str(uuid5(SPACE, str(number))))
