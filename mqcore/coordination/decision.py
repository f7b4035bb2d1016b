"""Machine vocabulary: what every machine takes and returns.

A machine is a class with four methods and no other public method that changes it:

* `decide(command, now)` reads the state and returns a `Decision`; it changes nothing.
* `apply(fact)` changes the state and cannot refuse. Replaying the journal means calling it for each kept fact.
* `deadline()` returns the monotonic time in ms at which a `Tick` would decide something, or None.
* `check()` asserts the invariants of the machine; tests call it after every step.

Facts are frozen dataclasses. Some are kept in the journal. Others only shape the memory of the running coordinator (a
member has joined, a rebalance has begun); for these the journal's codec returns None from `encode`. After a restart
only the kept facts come back, and the machine has to work with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NewType, Protocol, TypeVar

from mqcore.host import Instant
from mqcore.identity import Millis

Ticket = NewType("Ticket", int)
"""Identifies one waiting caller. A decision may answer the command's own ticket, earlier tickets, both or none."""

Command = TypeVar("Command")
Fact = TypeVar("Fact")
Answer = TypeVar("Answer")
CommandIn = TypeVar("CommandIn", contravariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[Fact, Answer]):
    """The result of a command: facts to keep and apply, and answers to give once the facts are committed."""

    facts: tuple[Fact, ...] = ()
    answers: tuple[tuple[Ticket, Answer], ...] = ()


@dataclass(frozen=True, slots=True)
class Tick:
    """The command that a timer submits: a deadline has passed."""


class Machine(Protocol[CommandIn, Fact, Answer]):
    def decide(self, ticket: Ticket, command: CommandIn | Tick, now: Instant) -> Decision[Fact, Answer]: ...

    def apply(self, fact: Fact) -> None: ...

    def deadline(self) -> Millis | None: ...

    def check(self) -> None: ...
