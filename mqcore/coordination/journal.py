"""The journal port: where the facts of a machine are kept, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from mqcore.identity import Offset

FactIn = TypeVar("FactIn", contravariant=True)


class JournalFault(Exception):
    """Facts could not be appended or will never be committed (disk full, leadership lost)."""


class CommandFailed(JournalFault):
    """A rule, a codec or `apply` raised an exception that none of them promises: a defect of the broker."""


class FactsTooLarge(JournalFault):
    """The facts of one decision do not fit into one batch. Nothing was written, and a retry fails the same way."""


class Journal(Protocol, Generic[FactIn]):
    def append(self, facts: Sequence[FactIn]) -> Offset:
        """Append the facts that are kept, as one batch, and return the end they need to be committed to.

        With nothing to keep it returns the present end. Raises `JournalFault` and changes nothing.
        """
        ...

    def when_committed(self, end: Offset, then: Callable[[JournalFault | None], None]) -> None:
        """Call `then` once everything below `end` is committed: at once if it is already."""
        ...
