"""Values: a lab, what one of its variants did, and the picture of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

CODE_LINES_MAX = 40


class Variant(StrEnum):
    BROKEN = "broken"
    FIXED = "fixed"


class Server(StrEnum):
    """What must run before a variant. A lab that starts its own servers needs none of them."""

    POSTGRES = "postgres"
    REDIS = "redis"
    BROKER = "broker"
    TOPICS = "topics"  # of the sale, on the broker


class Code(NamedTuple):
    """A symbol of a module, or its lines from the one that contains `first` to the one that contains `last`."""

    path: str
    symbol: str
    first: str = ""
    last: str = ""


class Bar(NamedTuple):
    name: str
    value: float
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Either a line of (x, y) or bars. `limit` is a dashed line."""

    x: str = ""
    y: str = ""
    line: Sequence[tuple[float, float]] = ()
    bars: Sequence[Bar] = ()
    limit: float | None = None
    limit_name: str = ""

    @property
    def top(self) -> float:
        values = [y for _, y in self.line] + [bar.value for bar in self.bars] + [self.limit or 0]
        return max([*values, 1])


@dataclass(frozen=True, slots=True)
class Observation:
    """`damage` is counted, never estimated. `facts` are printed in this order."""

    damage: int
    facts: Mapping[str, int | str]
    chart: Chart = field(default_factory=Chart)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Observation:
        chart = dict(saved["chart"])
        chart["bars"] = tuple(Bar(*bar) for bar in chart["bars"])
        chart["line"] = tuple((x, y) for x, y in chart["line"])
        return cls(saved["damage"], saved["facts"], Chart(**chart))


@dataclass(frozen=True, slots=True)
class Lab:
    """`damage` names what is counted; the broken variant must show some, the fixed one none."""

    number: int
    name: str
    question: str
    damage: str
    broken: str
    fixed: str
    why: str
    code: tuple[Code, ...]
    test: str
    next: str
    servers: frozenset[Server] = frozenset()
    postgres_options: tuple[str, ...] = ("-c", "fsync=off", "-c", "shared_buffers=64MB")

    @property
    def module(self) -> str:
        return self.name.replace("-", "_")

    @property
    def stem(self) -> str:
        """Of its page and its picture."""
        return f"{self.number:02d}-{self.name}"

    def what_runs(self, variant: Variant) -> str:
        return self.broken if variant is Variant.BROKEN else self.fixed


def is_expected(variant: Variant, damage: int) -> bool:
    """A broken variant without damage proves as little as a fixed one with damage."""
    return damage > 0 if variant is Variant.BROKEN else damage == 0
