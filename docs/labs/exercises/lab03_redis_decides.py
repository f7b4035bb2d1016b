"""Lab 3 · Redis decides alone: three small tasks about a gate that only proposes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Proposal(Enum):
    REFUSED = 0
    GRANTED = 1
    CLOSED = 2


@dataclass
class Gate:
    """What Redis keeps for an article. `free` is None after FLUSHALL."""

    free: int | None = None
    granted: dict[str, int] = field(default_factory=dict)  # request → units


def propose(gate: Gate, request: str, units: int) -> Proposal:
    """Task 1: GRANTED takes the units from `free`, once, however often the same request comes. A gate without a counter
    is CLOSED: that says neither yes nor no. Refusals are not remembered."""
    raise NotImplementedError("task 3.1")


def rebuild(available: int, active_holds: Mapping[str, int]) -> Gate:
    """Task 2: the gate after FLUSHALL, from the stock row and its active holds (request → units)."""
    raise NotImplementedError("task 3.2")


def decide(proposal: Proposal, available: int, units: int) -> tuple[str, bool]:
    """Task 3: (RESERVED or SOLD_OUT, whether the gate was wrong and must be rebuilt). The locked row has `available`
    units and it decides, whatever was proposed. A closed gate is always rebuilt."""
    raise NotImplementedError("task 3.3")
