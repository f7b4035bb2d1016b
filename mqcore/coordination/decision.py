"""Machine vocabulary: what every machine of the one loop takes and gives.

A machine is a class with four methods and no other public mutators:

* `decide(command, now)` reads the state and returns a `Decision`; it changes nothing.
* `apply(fact)` changes the state and cannot refuse; replaying the journal is calling it again.
* `deadline()` says when time itself will have something to decide (monotonic ms), or None.
* `check()` asserts the machine's own invariants; tests call it after every step.

Facts are frozen dataclasses. Some are kept in the journal, some only shape the memory of the running
coordinator (a member has joined, a rebalance has begun): the journal's codec knows which (`encode` gives
None for the latter). After a restart only what was kept comes back, and the machine must stand on that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NewType, Protocol, TypeVar

from mqcore.clock import Instant
from mqcore.identity import Millis

Ticket = NewType("Ticket", int)
"""One waiting caller. A command may answer its own ticket at once, later, or together with others'."""

Command = TypeVar("Command")
Fact = TypeVar("Fact")
Answer = TypeVar("Answer")
CommandIn = TypeVar("CommandIn", contravariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[Fact, Answer]):
    """What follows from a command: facts to keep and apply, then answers to give (once the facts are committed)."""

    facts: tuple[Fact, ...] = ()
    answers: tuple[tuple[Ticket, Answer], ...] = ()


@dataclass(frozen=True, slots=True)
class Tick:
    """The command of time: a deadline has passed."""


class Machine(Protocol[CommandIn, Fact, Answer]):
    def decide(self, ticket: Ticket, command: CommandIn | Tick, now: Instant) -> Decision[Fact, Answer]: ...

    def apply(self, fact: Fact) -> None: ...

    def deadline(self) -> Millis | None: ...

    def check(self) -> None: ...
