"""The register of corruptions, and helpers to write them. A corruption returns a changed copy of the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid5

from seckill.report.evidence import Evidence
from seckill.report.identity import Id, identity
from seckill.report.verdicts import Verdict

Row = TypeVar("Row")
Corrupt = Callable[[Evidence], Evidence]
SPACE = UUID("5e1f7e57-0000-4000-8000-000000000000")


class NothingToCorrupt(Exception):
    """The run has no rows that this corruption could change."""


class Corruption(NamedTuple):
    invariant: str
    what: str
    expected: Verdict
    apply: Corrupt


CORRUPTIONS: list[Corruption] = []


def corruption(invariant: str, what: str, expected: Verdict = Verdict.FAIL) -> Callable[[Corrupt], Corrupt]:
    def register(corrupt: Corrupt) -> Corrupt:
        CORRUPTIONS.append(Corruption(invariant, what, expected, corrupt))
        return corrupt

    return register


def first(rows: Iterable[Row], fits: Callable[[Row], bool] = lambda row: True) -> Row:
    for row in rows:
        if fits(row):
            return row
    raise NothingToCorrupt


def last(rows: Sequence[Row], fits: Callable[[Row], bool] = lambda row: True) -> Row:
    return first(reversed(rows), fits)


def without_one(rows: Sequence[Row], gone: Row) -> list[Row]:
    """Without the first occurrence of a row."""
    at = rows.index(gone)
    return [*rows[:at], *rows[at + 1 :]]


def with_replaced(rows: Sequence[Row], old: Row, new: Row) -> list[Row]:
    at = rows.index(old)
    return [*rows[:at], new, *rows[at + 1 :]]


def with_fields(rows: Sequence[Row], fits: Callable[[Row], bool], **fields: object) -> list[Row]:
    """Every row that fits gets these fields."""
    return [_replaced(row, fields) if fits(row) else row for row in rows]


def _replaced(row: Any, fields: dict[str, object]) -> Any:
    return row._replace(**fields)


def without_matching(rows: list[Row], fits: Callable[[Row], bool]) -> list[Row]:
    return [row for row in rows if not fits(row)]


def unknown_id(number: int = 1) -> Id:
    """An id that no run contains."""
    return identity(str(uuid5(SPACE, str(number))))
